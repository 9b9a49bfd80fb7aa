// A library to preload: it adds the seconds in the file that STEPPED_CLOCK names to a process's
// wall clock and leaves every other clock alone. libfaketime does not know CLOCK_BOOTTIME, which
// the clients read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long stepped_by(void) {
  char text[32] = {0};
  const char* path = getenv("STEPPED_CLOCK");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  const long got = read(file, text, sizeof text - 1);
  close(file);
  return got > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* moment) {
  const long failed = syscall(SYS_clock_gettime, clock, moment);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    moment->tv_sec += stepped_by();
  return (int)failed;
}

int gettimeofday(struct timeval* moment, void* zone) {
  (void)zone;
  struct timespec now;
  const int failed = clock_gettime(CLOCK_REALTIME, &now);
  moment->tv_sec = now.tv_sec;
  moment->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t* moment) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (moment) *moment = now.tv_sec;
  return now.tv_sec;
}
