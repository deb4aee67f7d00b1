/* Moves the clocks of a program while it runs: preloaded, it adds the seconds that the file JUMP_FILE holds (one native long, which may change at any
   moment) to every clock that the program reads. Timeouts of the kernel stay as they are: they are lengths, and a program that wakes up now and then
   notices that its timers are due. For scripts/long/long-wait.sh. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
  static const volatile long none = 0;
  static const volatile long *shared = NULL;
  if (shared == NULL) {
    const char *path = getenv("JUMP_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    shared = mapped == MAP_FAILED ? &none : mapped;
  }
  return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  /* The clocks of CPU time stand between these, and do not jump. */
  if (failed == 0 && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID && clock >= 0) now->tv_sec += ahead();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec read;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &read);
  now->tv_sec = read.tv_sec;
  now->tv_usec = read.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec read;
  clock_gettime(CLOCK_REALTIME, &read);
  if (now != NULL) *now = read.tv_sec;
  return read.tv_sec;
}
