/* A disk that fails now and then, and that can lose its power: loaded into the daemon with LD_PRELOAD, by
 * `disk.rs`. Linux only.
 *
 * Stands before the databases of one folder (`NAME.db…`). Calls fail only while the control file is there, which
 * holds a number: one call in so many. Which ones follows from the seed, as far as threads come in the same order.
 * Every failure is a line of the log. Reads and what is mapped into memory never fail.
 *
 * What was written since the last sync of a file is kept in `UNDO/NAME`, with what stood there before, so that
 * whoever ends the daemon can take it back as a power loss would.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static const char *folder, *control, *log_path, *undo;
static uint64_t state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  folder = getenv("SKEIN_DISK_FOLDER");
  control = getenv("SKEIN_DISK_CONTROL");
  log_path = getenv("SKEIN_DISK_LOG");
  undo = getenv("SKEIN_DISK_UNDO");
  const char *seed = getenv("SKEIN_DISK_SEED");
  if (!folder || !control || !log_path || !undo || !seed) abort();
  state = strtoull(seed, NULL, 10);
}

/* The next one of what we stand before. Our own files are written past it, by system calls. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct name {
  char path[4096];
  /* Within `path`; null for what is no database. */
  const char *base;
};

static void find_base(struct name *name) {
  size_t root = strlen(folder);
  name->base = NULL;
  if (strncmp(name->path, folder, root) || name->path[root] != '/') return;
  const char *base = name->path + root + 1;
  if (!strchr(base, '/') && strstr(base, ".db")) name->base = base;
}

static void of_file(int fd, struct name *name) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name->path, sizeof name->path - 1);
  name->path[length > 0 ? length : 0] = 0;
  find_base(name);
}

static void append(const char *path, const void *bytes, size_t size) {
  long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || syscall(SYS_write, fd, bytes, size) != (long)size) abort();
  syscall(SYS_close, fd);
}

/* ---- failures ---- */

/* One call in so many fails; 0 while the disk is well. */
static uint64_t rate(void) {
  char text[32];
  long fd = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  long length = syscall(SYS_read, fd, text, sizeof text - 1);
  syscall(SYS_close, fd);
  text[length > 0 ? length : 0] = 0;
  return strtoull(text, NULL, 10);
}

static uint64_t draw(void) {
  uint64_t mixed = state += 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
  return mixed ^ (mixed >> 31);
}

static int fails(void) {
  uint64_t one_in = rate();
  return one_in && draw() % one_in == 0;
}

static int refuse(const char *how, int error) {
  append(log_path, how, strlen(how));
  errno = error;
  return -1;
}

/* ---- what a power loss takes back ---- */

/* Numbers of the machine's order, then what stood there before, then what was written. A size was changed if
 * nothing was written. Memory that is shared, `-shm`, is never needed again. */
struct record {
  uint64_t at, size_before, before, written;
};

static void undo_path(const struct name *name, char *path, size_t size) {
  snprintf(path, size, "%s/%s", undo, name->base);
}

static int is_lasting(const struct name *name) { return !strstr(name->base, "-shm"); }

static void remember(const struct name *name, int fd, uint64_t at, const void *bytes, uint64_t written) {
  struct stat found;
  if (!is_lasting(name) || fstat(fd, &found)) return;
  uint64_t size = (uint64_t)found.st_size, rest = at < size ? size - at : 0;
  struct record record = {at, size, bytes && rest > written ? written : rest, written};
  size_t whole = sizeof record + record.before + written;
  char path[4096], *text = malloc(whole);
  if (!text) abort();
  memcpy(text, &record, sizeof record);
  long got = syscall(SYS_pread64, fd, text + sizeof record, record.before, at);
  if (got != (long)record.before) abort();
  if (bytes) memcpy(text + sizeof record + record.before, bytes, written);
  undo_path(name, path, sizeof path);
  append(path, text, whole);
  free(text);
}

static void forget(const struct name *name) {
  char path[4096];
  undo_path(name, path, sizeof path);
  syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* ---- what we stand before ---- */

static ssize_t put(int fd, const struct name *name, const void *bytes, size_t size, off64_t at) {
  remember(name, fd, (uint64_t)at, bytes, size);
  return syscall(SYS_pwrite64, fd, bytes, size, at);
}

static ssize_t put_or_fail(int fd, const struct name *name, const void *bytes, size_t size, off64_t at) {
  if (!fails()) return put(fd, name, bytes, size, at);
  switch (draw() % 4) {
    case 0: return refuse("write refused\n", EIO);
    case 1: return refuse("write full\n", ENOSPC);
    case 2:
      if (size < 2) return refuse("write refused\n", EIO);
      refuse("write short\n", 0);
      return put(fd, name, bytes, size / 2, at);
    default:
      if (size > 1) put(fd, name, bytes, size / 2, at);
      return refuse("write torn\n", EIO);
  }
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
  struct name name;
  of_file(fd, &name);
  if (!name.base) return REAL(pwrite64)(fd, bytes, size, at);
  pthread_mutex_lock(&lock);
  ssize_t done = put_or_fail(fd, &name, bytes, size, at);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return pwrite64(fd, bytes, size, at); }

ssize_t write(int fd, const void *bytes, size_t size) {
  struct name name;
  of_file(fd, &name);
  if (!name.base) return REAL(write)(fd, bytes, size);
  ssize_t done = pwrite64(fd, bytes, size, lseek64(fd, 0, SEEK_CUR));
  if (done > 0) lseek64(fd, done, SEEK_CUR);
  return done;
}

static int sync_or_fail(int fd, int (*real)(int)) {
  struct name name;
  of_file(fd, &name);
  if (!name.base) return real(fd);
  /* Nobody writes meanwhile, so that what is forgotten was synced. */
  pthread_mutex_lock(&lock);
  int done = fails() ? refuse("sync\n", EIO) : real(fd);
  if (!done) forget(&name);
  pthread_mutex_unlock(&lock);
  return done;
}

int fsync(int fd) { return sync_or_fail(fd, REAL(fsync)); }

int fdatasync(int fd) { return sync_or_fail(fd, REAL(fdatasync)); }

int ftruncate64(int fd, off64_t size) {
  struct name name;
  of_file(fd, &name);
  if (!name.base) return REAL(ftruncate64)(fd, size);
  pthread_mutex_lock(&lock);
  int failed = fails();
  if (!failed) remember(&name, fd, (uint64_t)size, NULL, 0);
  int done = failed ? refuse("truncate\n", EIO) : REAL(ftruncate64)(fd, size);
  pthread_mutex_unlock(&lock);
  return done;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

/* A file that is gone has nothing to take back; that its name is gone is taken for lasting. */
int unlink(const char *path) {
  struct name name;
  snprintf(name.path, sizeof name.path, "%s", path);
  find_base(&name);
  pthread_mutex_lock(&lock);
  int done = REAL(unlink)(path);
  if (!done && name.base) forget(&name);
  pthread_mutex_unlock(&lock);
  return done;
}
