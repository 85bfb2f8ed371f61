/* Writes frames into a pcap file (nanosecond magic, Ethernet), as they enter and leave at one port. */
#ifndef NETCORE_CAPTURE_H
#define NETCORE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_BUFFER_BYTES (1 << 18)

struct capture;

/* Begin a file; NULL with errno: it cannot be written. Frames are cut to `snap_bytes`. */
struct capture *capture_open(const char *path, uint32_t snap_bytes);

/* Add a frame seen at `at_ns` of CLOCK_MONOTONIC; the file has the time of day. */
void capture_frame(struct capture *capture, const uint8_t *frame, uint32_t length, int64_t at_ns);

/* The path it was opened with. */
const char *capture_path(const struct capture *capture);

/* Write out what is buffered and close; false with errno: something was not written. */
bool capture_close(struct capture *capture);

#endif
