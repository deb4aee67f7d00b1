/* Other programs and hosts: the test listens on loopback by every protocol. */
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define WAIT_MS 1500

static struct sockaddr_in at(const char *ip, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}
static int is_ready(int fd) {
  struct pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, WAIT_MS) == 1;
}
/* The servers of the test greet with the treasure, so a connection to anybody else is none. */
static enum outcome greeted(int fd) {
  if (is_ready(fd)) return finds_treasure(fd);
  printf("no greeting\n");
  return REFUSED;
}
static enum outcome connect_by(int protocol, const char *ip, int port) {
  int fd = socket(AF_INET, SOCK_STREAM, protocol);
  if (fd < 0) return by(fd);
  struct sockaddr_in address = at(ip, port);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome tcp(void) { return connect_by(0, "127.0.0.1", number("TCP_PORT")); }
static enum outcome multipath_tcp(void) {
  return connect_by(IPPROTO_MPTCP, "127.0.0.1", number("TCP_PORT"));
}
static enum outcome mapped_tcp(void) {
  int fd = socket(AF_INET6, SOCK_STREAM, 0);
  if (fd < 0) return by(fd);
  struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(number("TCP_PORT"))};
  inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome fast_open(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return by(fd);
  struct sockaddr_in address = at("127.0.0.1", number("TCP_PORT"));
  if (sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome fast_open_option(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (fd < 0) return by(fd);
  if (setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) < 0) return by(-1);
  struct sockaddr_in address = at("127.0.0.1", number("TCP_PORT"));
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  if (write(fd, "x", 1) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome allowed_port_elsewhere(void) {
  return connect_by(0, "127.0.0.2", number("DOOR_PORT"));
}
static enum outcome datagram(int kind, int protocol) {
  int fd = socket(AF_INET, kind, protocol);
  if (fd < 0) return by(fd);
  struct sockaddr_in address = at("127.0.0.1", number("UDP_PORT"));
  if (sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome udp(void) { return datagram(SOCK_DGRAM, 0); }
static enum outcome made(int family, int kind, int protocol) {
  return by(socket(family, kind, protocol));
}
static enum outcome raw_socket(void) { return made(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static enum outcome packet_socket(void) { return made(AF_PACKET, SOCK_RAW, 0); }
static enum outcome vsock(void) { return made(AF_VSOCK, SOCK_STREAM, 0); }
static enum outcome kernel_crypto(void) { return made(AF_ALG, SOCK_SEQPACKET, 0); }
static enum outcome kernel_events(void) { return made(AF_NETLINK, SOCK_RAW, 15); }
static enum outcome unix_socket(const char *path, size_t skip, int kind) {
  int fd = socket(AF_UNIX, kind, 0);
  if (fd < 0) return by(fd);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + skip, path, sizeof address.sun_path - 1 - skip);
  socklen_t length = offsetof(struct sockaddr_un, sun_path) + skip + strlen(path);
  if (connect(fd, (struct sockaddr *)&address, length) < 0) return by(-1);
  return kind == SOCK_STREAM ? greeted(fd) : by(write(fd, "x", 1));
}
static enum outcome unix_stream(void) { return unix_socket(var("UNIX_STREAM"), 0, SOCK_STREAM); }
static enum outcome unix_datagram(void) { return unix_socket(var("UNIX_DATAGRAM"), 0, SOCK_DGRAM); }
static enum outcome abstract_unix(void) { return unix_socket(var("UNIX_ABSTRACT"), 1, SOCK_STREAM); }
static enum outcome egress_socket(void) {
  return unix_socket(join(var("RUN_DIR"), "egress"), 0, SOCK_STREAM);
}
static enum outcome reachable_port(void) {
  /* The test tries to connect to this port all the time. */
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (fd < 0) return by(fd);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = at("0.0.0.0", number("LISTEN_PORT"));
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0) return by(-1);
  if (!is_ready(fd)) return REFUSED;
  return by(accept(fd, NULL, NULL));
}
static enum outcome through_proxy(const char *request) {
  const char *proxy = getenv("http_proxy");
  if (!proxy) return tcp();
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = at("127.0.0.1", atoi(strrchr(proxy, ':') + 1));
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return by(-1);
  if (write(fd, request, strlen(request)) < 0) return by(-1);
  return greeted(fd);
}
static enum outcome proxy_tunnel(void) {
  char request[256];
  int port = number("TCP_PORT");
  snprintf(request, sizeof request, "CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: example.org\r\n\r\n", port);
  return through_proxy(request);
}
static enum outcome proxy_forward(void) {
  char request[256];
  snprintf(request, sizeof request, "GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: allowed.example.org\r\n\r\n",
           number("TCP_PORT"));
  return through_proxy(request);
}
static enum outcome proxy_origin_form(void) {
  char request[256];
  snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", number("TCP_PORT"));
  return through_proxy(request);
}

const struct attack network_attacks[] = {
    {"tcp", tcp},
    {"multipath_tcp", multipath_tcp},
    {"mapped_tcp", mapped_tcp},
    {"fast_open", fast_open},
    {"fast_open_option", fast_open_option},
    {"allowed_port_elsewhere", allowed_port_elsewhere},
    {"udp", udp},
    {"raw_socket", raw_socket},
    {"packet_socket", packet_socket},
    {"vsock", vsock},
    {"kernel_crypto", kernel_crypto},
    {"kernel_events", kernel_events},
    {"unix_stream", unix_stream},
    {"unix_datagram", unix_datagram},
    {"abstract_unix", abstract_unix},
    {"egress_socket", egress_socket},
    {"reachable_port", reachable_port},
    {"proxy_tunnel", proxy_tunnel},
    {"proxy_forward", proxy_forward},
    {"proxy_origin_form", proxy_origin_form},
    {NULL, NULL}};
