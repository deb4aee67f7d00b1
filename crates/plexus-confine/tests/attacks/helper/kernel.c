/* The kernel: calls that see more than one program, and ways to new rights. */
#include "attack.h"
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/wait.h>

static enum outcome io_uring(void) {
  char parameters[256] = {0};
  return by(syscall(SYS_io_uring_setup, 1, parameters));
}
static enum outcome user_namespace(void) { return by(unshare(CLONE_NEWUSER)); }
static enum outcome namespace_by_clone(void) {
  long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  return by(child);
}
static enum outcome namespace_by_clone3(void) {
  struct { unsigned long long flags, words[10]; } args = {CLONE_NEWUSER, {0}};
  args.words[3] = 17;
  long child = syscall(SYS_clone3, &args, sizeof args);
  if (child == 0) _exit(0);
  return by(child);
}
static enum outcome mount_tmpfs(void) {
  enum outcome mounted = by(mount("x", var("WORK"), "tmpfs", 0, NULL));
  if (mounted == SUCCEEDED) umount2(var("WORK"), MNT_DETACH);
  return mounted;
}
static enum outcome mount_in_namespace(void) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return by(-1);
  return by(mount("x", var("WORK"), "tmpfs", 0, NULL));
}
static enum outcome unmount_cover(void) { return by(umount2(var("COVER"), MNT_DETACH)); }
static enum outcome change_root(void) { return by(chroot(var("WORK"))); }
static enum outcome enter_parents_namespace(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/mnt", getppid());
  int fd = open(path, O_RDONLY);
  return fd < 0 ? by(fd) : by(setns(fd, CLONE_NEWNS));
}
static enum outcome kernel_program(void) {
  union bpf_attr attr = {0};
  attr.map_type = BPF_MAP_TYPE_ARRAY;
  attr.key_size = attr.value_size = 4;
  attr.max_entries = 1;
  return by(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}
static enum outcome watch_processor(void) {
  struct perf_event_attr attr = {0};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_TASK_CLOCK;
  attr.exclude_kernel = 1;
  return by(syscall(SYS_perf_event_open, &attr, number("VICTIM"), -1, -1, 0));
}
static enum outcome user_keys(void) {
  long key = syscall(SYS_add_key, "user", "plexus-attack", "x", 1, -4);
  if (key >= 0) syscall(SYS_keyctl, 9, key, -4);
  return by(key);
}
static enum outcome shared_memory(void) {
  void *memory = shmat(number("SHARED_MEMORY"), NULL, SHM_RDONLY);
  if (memory == (void *)-1) return by(-1);
  return strcmp(memory, TREASURE) == 0 ? SUCCEEDED : REFUSED;
}
/* For the test, outside: makes and removes what the two attacks look for. */
static enum outcome make_shared(void) {
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  char *memory = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
  if (memory == (void *)-1) return by(-1);
  strcpy(memory, TREASURE);
  printf("%d", id);
  return by(mq_open(var("MESSAGE_QUEUE"), O_RDWR | O_CREAT, 0600, NULL));
}
static enum outcome remove_shared(void) {
  mq_unlink(var("MESSAGE_QUEUE"));
  return by(shmctl(number("SHARED_MEMORY"), IPC_RMID, NULL));
}
static enum outcome message_queue(void) { return by(mq_open(var("MESSAGE_QUEUE"), O_RDWR)); }
static enum outcome fault_handler(void) { return by(syscall(SYS_userfaultfd, 1)); }
static enum outcome kernel_log(void) {
  char text[64];
  return by(syscall(SYS_syslog, 3, text, sizeof text));
}
static enum outcome kernel_setting(void) { return can_open("/proc/sys/kernel/core_pattern", O_WRONLY); }
static enum outcome kernel_trigger(void) { return can_open("/proc/sysrq-trigger", O_WRONLY); }
static enum outcome kernel_module(void) {
  long result = syscall(SYS_finit_module, -1, "", 0);
  /* With the right to it the kernel complains of the descriptor. */
  return errno == EBADF ? SUCCEEDED : by(result);
}
static enum outcome host_name(void) {
  char name[65] = {0};
  gethostname(name, sizeof name - 1);
  return by(sethostname(name, strlen(name)));
}
static enum outcome control_groups(void) { return can_open("/sys/fs/cgroup/cgroup.procs", O_WRONLY); }
static enum outcome other_user(void) { return by(setresuid(12345, 12345, 12345)); }
static enum outcome calls_of_32_bits(void) {
#ifdef __x86_64__
  int status;
  pid_t child = fork();
  if (child == 0) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    _exit(result > 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) printf("%s\n", strsignal(WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SUCCEEDED : REFUSED;
#else
  return REFUSED;
#endif
}

const struct attack kernel_attacks[] = {
    {"make_shared", make_shared},
    {"remove_shared", remove_shared},
    {"io_uring", io_uring},
    {"user_namespace", user_namespace},
    {"namespace_by_clone", namespace_by_clone},
    {"namespace_by_clone3", namespace_by_clone3},
    {"mount_tmpfs", mount_tmpfs},
    {"mount_in_namespace", mount_in_namespace},
    {"unmount_cover", unmount_cover},
    {"change_root", change_root},
    {"enter_parents_namespace", enter_parents_namespace},
    {"kernel_program", kernel_program},
    {"watch_processor", watch_processor},
    {"user_keys", user_keys},
    {"shared_memory", shared_memory},
    {"message_queue", message_queue},
    {"fault_handler", fault_handler},
    {"kernel_log", kernel_log},
    {"kernel_setting", kernel_setting},
    {"kernel_trigger", kernel_trigger},
    {"kernel_module", kernel_module},
    {"host_name", host_name},
    {"control_groups", control_groups},
    {"other_user", other_user},
    {"calls_of_32_bits", calls_of_32_bits},
    {NULL, NULL}};
