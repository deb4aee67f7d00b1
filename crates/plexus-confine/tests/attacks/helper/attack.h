/* Attacks from inside a wall. Each function tries one and says how it went. */
#ifndef ATTACK_H
#define ATTACK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The word in every secret: whoever prints it has read one. */
#define TREASURE "plexus-treasure"

enum outcome { REFUSED = 1, SUCCEEDED = 0 };

struct attack {
  const char *name;
  enum outcome (*run)(void);
};

/* Lists of attacks, each ended by an entry without a name. */
extern const struct attack file_attacks[], process_attacks[], network_attacks[], kernel_attacks[];

/* A variable that the test sets; without it the attack cannot be tried. */
const char *var(const char *name);
int number(const char *name);
/* A path of two parts, in a buffer of its own. */
char *join(const char *dir, const char *name);
/* Refused, unless the result of a call is at least 0. */
enum outcome by(long result);
/* Whether a path can be opened, written (and made), or read with the treasure in it. */
enum outcome can_open(const char *path, int flags);
enum outcome plants(const char *path);
enum outcome finds_treasure(int fd);
enum outcome reads(const char *path);
#endif
