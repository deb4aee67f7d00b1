/* Files outside the wall, by every name that could lead to them. */
#include "attack.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static char *secret(void) { return join(var("DATA"), "operator.token"); }
static char *work(const char *name) { return join(var("WORK"), name); }
static char *home(const char *name) { return join(var("HOME"), name); }

static enum outcome read_secret(void) { return reads(secret()); }
static enum outcome write_secret(void) { return can_open(secret(), O_WRONLY | O_APPEND); }
static enum outcome truncate_secret(void) { return by(truncate(secret(), 0)); }
static enum outcome remove_secret(void) { return by(unlink(secret())); }
static enum outcome take_secret(void) { return by(rename(secret(), work("taken"))); }
static enum outcome list_data(void) {
  DIR *dir = opendir(var("DATA"));
  return by(dir ? 0 : -1);
}
static enum outcome plant_file(void) {
  return plants(join(var("DATA"), "planted"));
}
static enum outcome by_link(void) {
  char *link_name = work("link");
  unlink(link_name);
  if (symlink(secret(), link_name) < 0) return by(-1);
  return reads(link_name);
}
static enum outcome by_hard_link(void) {
  char *link_name = work("hard");
  unlink(link_name);
  if (link(secret(), link_name) < 0) return by(-1);
  return reads(link_name);
}
static enum outcome by_dots(void) {
  char path[8192];
  snprintf(path, sizeof path, "../../../../../../../../../../%s", secret());
  return reads(path);
}
static enum outcome by_own_root(void) { return reads(join("/proc/self/root", secret())); }
static enum outcome by_parents_root(void) {
  char path[8192];
  snprintf(path, sizeof path, "/proc/%d/root%s", getppid(), secret());
  return reads(path);
}
static enum outcome by_victims_directory(void) {
  char path[8192];
  snprintf(path, sizeof path, "/proc/%d/cwd/operator.token", number("VICTIM"));
  return reads(path);
}
static enum outcome by_swapped_directory(void) {
  /* A directory of the working directory becomes a link while it is used. */
  char *dir = work("swap");
  mkdir(dir, 0700);
  int fd = open(dir, O_PATH | O_DIRECTORY);
  rmdir(dir);
  if (symlink(var("DATA"), dir) < 0) return by(-1);
  enum outcome through = reads(join(dir, "operator.token"));
  unlink(dir);
  return fd >= 0 && through == SUCCEEDED ? SUCCEEDED : REFUSED;
}
static enum outcome change_mode(void) { return by(chmod(secret(), 0644)); }
static enum outcome change_times(void) { return by(utimensat(AT_FDCWD, secret(), NULL, 0)); }
static enum outcome change_attributes(void) {
  return by(setxattr(secret(), "user.mark", "x", 1, 0));
}
static enum outcome see_size(void) {
  struct stat meta;
  return by(stat(secret(), &meta));
}
static enum outcome watch_data(void) {
  int fd = inotify_init();
  return by(inotify_add_watch(fd, var("DATA"), IN_ALL_EVENTS));
}
static enum outcome inherited_file(void) { return finds_treasure(number("LEFT_OPEN_FILE")); }
static enum outcome inherited_directory(void) {
  return finds_treasure(openat(number("LEFT_OPEN_DIR"), "operator.token", O_RDONLY));
}
static enum outcome read_ssh_key(void) { return reads(home(".ssh/id_ed25519")); }
static enum outcome read_netrc(void) { return reads(home(".netrc")); }
static enum outcome read_cargo_token(void) { return reads(home(".cargo/credentials.toml")); }
static enum outcome write_shell_start(void) { return can_open(home(".bashrc"), O_WRONLY | O_APPEND); }
static enum outcome make_shell_start(void) { return plants(home(".zlogin")); }
static enum outcome plant_program(void) {
  return plants(home(".cargo/bin/cargo-x"));
}
static enum outcome poison_cache(void) {
  return plants(home(".cargo/registry/src/index/package/lib.rs"));
}
static enum outcome read_tmp(void) { return reads(var("OTHERS_TMP")); }
static enum outcome write_tmp(void) { return can_open(var("OTHERS_TMP"), O_WRONLY | O_APPEND); }
static enum outcome read_shm(void) { return reads(var("OTHERS_SHM")); }
static enum outcome read_run_directory(void) { return can_open(join(var("RUN_DIR"), "plan"), O_RDONLY); }
static enum outcome read_shadow(void) {
  char byte;
  int fd = open("/etc/shadow", O_RDONLY);
  if (fd < 0) return by(fd);
  return read(fd, &byte, 1) == 1 ? SUCCEEDED : REFUSED;
}
static enum outcome write_system_setting(void) {
  enum outcome made = can_open("/etc/plexus-attack", O_WRONLY | O_CREAT);
  unlink("/etc/plexus-attack");
  return made;
}
static enum outcome write_system_program(void) {
  enum outcome made = can_open("/usr/local/bin/plexus-attack", O_WRONLY | O_CREAT);
  unlink("/usr/local/bin/plexus-attack");
  return made;
}
static enum outcome make_disk_device(void) {
  char *path = work("disk");
  enum outcome made = by(mknod(path, S_IFBLK | 0600, makedev(254, 0)));
  unlink(path);
  return made;
}
static enum outcome by_handle(void) {
  struct {
    struct file_handle head;
    char bytes[128];
  } handle;
  int mount_id, dir = open(var("WORK"), O_RDONLY | O_DIRECTORY);
  handle.head.handle_bytes = sizeof handle.bytes;
  if (name_to_handle_at(dir, ".envrc", &handle.head, &mount_id, 0) < 0) return by(-1);
  return by(open_by_handle_at(dir, &handle.head, O_RDONLY));
}
/* What the program with the set-user-id bit does. */
static enum outcome be_root(void) { return geteuid() == 0 ? SUCCEEDED : REFUSED; }
static enum outcome set_user_id_program(void) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    execl(var("SUID_PROGRAM"), "attack", "be_root", (char *)NULL);
    _exit(9);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SUCCEEDED : REFUSED;
}

static enum outcome git_hook(void) {
  return can_open(work(".git/hooks/pre-commit"), O_WRONLY | O_CREAT);
}
static enum outcome git_config(void) { return can_open(work(".git/config"), O_WRONLY | O_APPEND); }
static enum outcome replace_git_config(void) {
  can_open(work(".git/config.new"), O_WRONLY | O_CREAT);
  return by(rename(work(".git/config.new"), work(".git/config")));
}
static enum outcome git_commondir(void) {
  return can_open(work(".git/commondir"), O_WRONLY | O_CREAT);
}
static enum outcome swap_git(void) { return by(rename(work(".git"), work("was-git"))); }
static enum outcome editor_settings(void) {
  return can_open(work(".vscode/settings.json"), O_WRONLY | O_APPEND);
}
static enum outcome agent_settings(void) {
  return can_open(work(".claude/settings.json"), O_WRONLY | O_APPEND);
}
static enum outcome shell_hook(void) { return can_open(work(".envrc"), O_WRONLY | O_APPEND); }
static enum outcome new_editor_settings(void) { return by(mkdir(work(".idea"), 0700)); }

const struct attack file_attacks[] = {
    {"be_root", be_root},
    {"read_secret", read_secret},
    {"write_secret", write_secret},
    {"truncate_secret", truncate_secret},
    {"remove_secret", remove_secret},
    {"take_secret", take_secret},
    {"list_data", list_data},
    {"plant_file", plant_file},
    {"by_link", by_link},
    {"by_hard_link", by_hard_link},
    {"by_dots", by_dots},
    {"by_own_root", by_own_root},
    {"by_parents_root", by_parents_root},
    {"by_victims_directory", by_victims_directory},
    {"by_swapped_directory", by_swapped_directory},
    {"change_mode", change_mode},
    {"change_times", change_times},
    {"change_attributes", change_attributes},
    {"see_size", see_size},
    {"watch_data", watch_data},
    {"inherited_file", inherited_file},
    {"inherited_directory", inherited_directory},
    {"read_ssh_key", read_ssh_key},
    {"read_netrc", read_netrc},
    {"read_cargo_token", read_cargo_token},
    {"write_shell_start", write_shell_start},
    {"make_shell_start", make_shell_start},
    {"plant_program", plant_program},
    {"poison_cache", poison_cache},
    {"read_tmp", read_tmp},
    {"write_tmp", write_tmp},
    {"read_shm", read_shm},
    {"read_run_directory", read_run_directory},
    {"read_shadow", read_shadow},
    {"write_system_setting", write_system_setting},
    {"write_system_program", write_system_program},
    {"make_disk_device", make_disk_device},
    {"by_handle", by_handle},
    {"set_user_id_program", set_user_id_program},
    {"git_hook", git_hook},
    {"git_config", git_config},
    {"replace_git_config", replace_git_config},
    {"git_commondir", git_commondir},
    {"swap_git", swap_git},
    {"editor_settings", editor_settings},
    {"agent_settings", agent_settings},
    {"shell_hook", shell_hook},
    {"new_editor_settings", new_editor_settings},
    {NULL, NULL}};
