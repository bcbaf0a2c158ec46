// SPDX-License-Identifier: Apache-2.0
// drops.p4: why a packet went no further. One counter each (`drops`). Python twin: controller/drops.py.

enum bit<8> Drop {
    NONE             = 0,
    NO_JOB           = 1,   // the job is not installed here
    STALE_GENERATION = 2,   // of another generation than the job's
    WRONG_PORT       = 3,   // speaks for a rank that is not behind its port
    NO_SLOT          = 4,   // the owner has no such slot or segment
    UNKNOWN_OP       = 5,
    TRUNCATED        = 6,   // shorter than its headers say
    WRONG_VERSION    = 7,
    BAD_CHECKSUM     = 8,   // IPv4 header
    STALE_SEQ        = 9,   // older than the row in the slot
    NOT_ARMED        = 10,  // a contribution to a row this switch has not seen
    NOT_MEMBER       = 11,  // a contribution of a rank that the row does not expect
    REPEATED         = 12,  // a contribution already counted: harmless
    WRONG_LENGTH     = 13,  // more chunks than a packet holds, or not the other contributors' number
    NO_MEMBERS       = 14,  // a row that nobody here would contribute to
    COLLECTED        = 15,  // added, the sum is not complete yet: no fault
    NO_ROUTE         = 16,  // plain traffic to an address without an entry
    EXPIRED          = 17,  // plain traffic, time to live
    OVERLAP          = 18,  // a contribution of several ranks of which some are counted
    SPOOFED          = 19,  // plain traffic that says it comes from a switch
    FAULT            = 20   // lost on purpose (faults.p4)
}
