// SPDX-License-Identifier: Apache-2.0
// sizes.p4: the packet geometry and the size of every register and table. The only file to edit for another build.

// EACH_CHUNK(X) expands X(i) for every chunk a packet can carry; MAX_CHUNKS is their number.
#define CHUNKS_4(X, a, b, c, d) X(a) X(b) X(c) X(d)
#define CHUNKS_32(X) \
    CHUNKS_4(X, 0, 1, 2, 3)     CHUNKS_4(X, 4, 5, 6, 7)     CHUNKS_4(X, 8, 9, 10, 11)   CHUNKS_4(X, 12, 13, 14, 15) \
    CHUNKS_4(X, 16, 17, 18, 19) CHUNKS_4(X, 20, 21, 22, 23) CHUNKS_4(X, 24, 25, 26, 27) CHUNKS_4(X, 28, 29, 30, 31)

#if defined(GEOMETRY_MTU1500)
#define EACH_CHUNK(X) CHUNKS_4(X, 0, 1, 2, 3) X(4)
#define MAX_CHUNKS 5       // 1,280 bytes of lanes
#define NUM_SLOTS  8192    // rows in flight, all owners of all jobs
#define NUM_CELLS  16384   // segments of rows in flight
#elif defined(GEOMETRY_MTU9000)
#define EACH_CHUNK(X) CHUNKS_32(X)
#define MAX_CHUNKS 32      // 8,192 bytes of lanes
#define NUM_SLOTS  8192
#define NUM_CELLS  8192
#else
#error "define GEOMETRY_MTU1500 or GEOMETRY_MTU9000"
#endif

#define MAX_JOBS    64
#define MAX_OWNERS  4096   // (job, rank) pairs
#define MAX_PORTS   512    // (job, port) pairs
#define NUM_PORTS   512    // switch ports, 0 .. 511
#define DROPPED     511    // v1model: the port of what is dropped
#define NUM_OPS     8
#define NUM_DROPS   32
#define MAX_MACS    1024
#define MAX_ROUTES  1024
#define MAX_SOURCES 512    // addresses of switches
#define MAX_FAULTS  1024   // (port, op) pairs, in builds WITH_FAULTS
