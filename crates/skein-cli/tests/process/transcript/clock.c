/* A clock that is wrong by as many seconds as a file says: loaded into the daemon with LD_PRELOAD, by `clock.rs`.
 * Linux only. Only the time of day is moved; what waits goes by another clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  char text[32];
  const char *path = getenv("SKEIN_CLOCK_OFFSET");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = 0;
  return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  __typeof__(&clock_gettime) real = dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(clock, now);
  if (!done && clock == CLOCK_REALTIME) now->tv_sec += offset();
  return done;
}
