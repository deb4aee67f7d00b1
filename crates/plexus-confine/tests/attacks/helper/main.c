#include "attack.h"

const char *var(const char *name) {
  const char *value = getenv(name);
  if (!value) {
    fprintf(stderr, "%s is not set\n", name);
    exit(3);
  }
  return value;
}

int number(const char *name) { return atoi(var(name)); }

char *join(const char *dir, const char *name) {
  char *path = malloc(4096);
  snprintf(path, 4096, "%s/%s", dir, name);
  return path;
}

enum outcome by(long result) {
  if (result >= 0) return SUCCEEDED;
  printf("%s\n", strerror(errno));
  return REFUSED;
}

enum outcome can_open(const char *path, int flags) {
  int fd = open(path, flags, 0600);
  if (fd >= 0) close(fd);
  return by(fd);
}

enum outcome plants(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  return by(fd < 0 ? fd : write(fd, "x", 1));
}

enum outcome finds_treasure(int fd) {
  char text[4096] = {0};
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (got < 0) return by(got);
  return memmem(text, got, TREASURE, strlen(TREASURE)) ? SUCCEEDED : REFUSED;
}

enum outcome reads(const char *path) { return finds_treasure(open(path, O_RDONLY)); }

int main(int argc, char **argv) {
  const struct attack *lists[] = {file_attacks, process_attacks, network_attacks, kernel_attacks};
  if (argc != 2) return 3;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const struct attack *a = lists[i]; a->name; a++)
      if (strcmp(a->name, argv[1]) == 0) return a->run();
  fprintf(stderr, "there is no attack %s\n", argv[1]);
  return 3;
}
