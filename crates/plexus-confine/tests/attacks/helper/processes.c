/* Other processes of the same user: the victim sleeps, with a treasure in its environment. */
#include "attack.h"
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

static pid_t victim(void) { return number("VICTIM"); }
static char *proc(const char *name) {
  char *path = malloc(128);
  snprintf(path, 128, "/proc/%d/%s", victim(), name);
  return path;
}

static enum outcome signal_victim(void) { return by(kill(victim(), SIGCONT)); }
static enum outcome stop_victim(void) { return by(kill(victim(), SIGSTOP)); }
static enum outcome signal_parent(void) { return by(kill(getppid(), SIGCONT)); }
static enum outcome signal_by_handle(void) {
  long fd = syscall(SYS_pidfd_open, victim(), 0);
  if (fd < 0) return by(fd);
  return by(syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0));
}
static enum outcome signal_by_owner(void) {
  int ends[2];
  if (pipe(ends) < 0 || fcntl(ends[0], F_SETOWN, victim()) < 0) return by(-1);
  fcntl(ends[0], F_SETSIG, SIGKILL);
  fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  if (write(ends[1], "x", 1) < 0) return by(-1);
  /* A killed victim has no memory any more, also before it was waited for. */
  for (int i = 0; i < 50; i++) {
    char line[512] = {0};
    FILE *stat = fopen(proc("stat"), "r");
    if (!stat) return SUCCEEDED;
    char *got = fgets(line, sizeof line, stat);
    fclose(stat);
    if (got && strstr(line, ") Z")) return SUCCEEDED;
    usleep(10000);
  }
  return REFUSED;
}
static enum outcome trace_victim(void) { return by(ptrace(PTRACE_SEIZE, victim(), 0, 0)); }
static enum outcome read_environment(void) { return reads(proc("environ")); }
static enum outcome open_memory(void) { return can_open(proc("mem"), O_RDWR); }
static enum outcome read_memory(void) {
  char line[512], bytes[8];
  unsigned long from = 0;
  FILE *maps = fopen(proc("maps"), "r");
  if (!maps) return by(-1);
  if (fgets(line, sizeof line, maps)) from = strtoul(line, NULL, 16);
  struct iovec here = {bytes, sizeof bytes}, there = {(void *)from, sizeof bytes};
  return by(process_vm_readv(victim(), &here, 1, &there, 1, 0));
}
static enum outcome take_descriptor(void) {
  long fd = syscall(SYS_pidfd_open, victim(), 0);
  if (fd < 0) return by(fd);
  return by(syscall(SYS_pidfd_getfd, fd, 0, 0));
}
static enum outcome open_descriptor(void) { return can_open(proc("fd/0"), O_RDONLY); }
static enum outcome see_arguments(void) { return can_open(proc("cmdline"), O_RDONLY); }
static enum outcome see_connections(void) { return can_open(proc("net/tcp"), O_RDONLY); }
static enum outcome see_mounts(void) { return can_open(proc("mountinfo"), O_RDONLY); }
static enum outcome limit_victim(void) {
  struct rlimit limit = {1, 1};
  return by(prlimit(victim(), RLIMIT_CPU, &limit, NULL));
}
static enum outcome slow_victim(void) { return by(setpriority(PRIO_PROCESS, victim(), 19)); }
static enum outcome pin_victim(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  return by(sched_setaffinity(victim(), sizeof set, &set));
}
static enum outcome offer_to_memory_killer(void) {
  int fd = open(proc("oom_score_adj"), O_WRONLY);
  return by(fd < 0 ? fd : write(fd, "1000", 4));
}
static enum outcome write_terminal(void) {
  int fd = open(var("TERMINAL"), O_WRONLY | O_NOCTTY);
  return by(fd < 0 ? fd : write(fd, "x", 1));
}

const struct attack process_attacks[] = {
    {"signal_victim", signal_victim},
    {"stop_victim", stop_victim},
    {"signal_parent", signal_parent},
    {"signal_by_handle", signal_by_handle},
    {"signal_by_owner", signal_by_owner},
    {"trace_victim", trace_victim},
    {"read_environment", read_environment},
    {"open_memory", open_memory},
    {"read_memory", read_memory},
    {"take_descriptor", take_descriptor},
    {"open_descriptor", open_descriptor},
    {"see_arguments", see_arguments},
    {"see_connections", see_connections},
    {"see_mounts", see_mounts},
    {"limit_victim", limit_victim},
    {"slow_victim", slow_victim},
    {"pin_victim", pin_victim},
    {"offer_to_memory_killer", offer_to_memory_killer},
    {"write_terminal", write_terminal},
    {NULL, NULL}};
