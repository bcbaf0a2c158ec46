// SPDX-License-Identifier: Apache-2.0
// bare.c: forwards every frame from one interface to another, with recvmmsg and sendmmsg, and does
// nothing else: what AF_PACKET sockets can do at most.
//
//   bare FROM TO          says "up" on its standard output

#define _GNU_SOURCE  // recvmmsg, sendmmsg
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES 256
#define FRAME_BYTES 16384
#define BUFFER_BYTES (8 << 20)  // as softswitch/ports/sockets.py

static char data[FRAMES][FRAME_BYTES];
static struct iovec pieces[FRAMES];
static struct mmsghdr messages[FRAMES];

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static int open_port(const char *interface, int protocol) {
    int on = 1, size = BUFFER_BYTES;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    check(fd < 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    struct packet_mreq all = {.mr_ifindex = if_nametoindex(interface), .mr_type = PACKET_MR_PROMISC};
    check(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all), interface);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol),
                                  .sll_ifindex = all.mr_ifindex};
    check(bind(fd, (struct sockaddr *)&address, sizeof address), interface);
    return fd;
}

static void send_all(int fd, int count) {
    for (int done = 0; done < count;) {
        int sent = sendmmsg(fd, messages + done, count - done, 0);
        check(sent < 0 && errno != EINTR && errno != ENOBUFS, "sendmmsg");
        done += sent < 0 ? errno == ENOBUFS : sent;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: bare FROM TO\n");
        return 2;
    }
    int from = open_port(argv[1], ETH_P_ALL), to = open_port(argv[2], 0);
    for (int i = 0; i < FRAMES; i++) {
        pieces[i].iov_base = data[i];
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    check(puts("up") < 0 || fflush(stdout), "stdout");
    for (;;) {
        for (int i = 0; i < FRAMES; i++) {
            pieces[i].iov_len = FRAME_BYTES;
        }
        int count = recvmmsg(from, messages, FRAMES, MSG_WAITFORONE, NULL);
        check(count < 0 && errno != EINTR, "recvmmsg");
        for (int i = 0; i < count; i++) {
            pieces[i].iov_len = messages[i].msg_len;
        }
        send_all(to, count);
    }
}
