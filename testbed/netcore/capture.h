/* Writes frames into a pcapng file, as they enter and leave at one port.
 *
 * One section with one interface, times in nanoseconds; at the end the interface's statistics, by which a reader knows that
 * the file is whole. Format: draft-ietf-opsawg-pcapng.
 */
#ifndef NETCORE_CAPTURE_H
#define NETCORE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_BUFFER_BYTES (1 << 18)
#define CAPTURE_TEXT_MAX 4096 /* of a name or a comment; what is longer is cut */

struct capture;

/* As the port's node sees it; the values are those of epb_flags. */
enum capture_direction { CAPTURE_INBOUND = 1, CAPTURE_OUTBOUND = 2 };

/* Begin a file; NULL with errno: it cannot be written. Frames are cut to `snap_bytes`. `interface` names the port, and
 * `comment` says more of it; each is left out where empty. Times are of CLOCK_MONOTONIC, and the file has the time of day;
 * or they are virtual, and the file has them as they are. */
struct capture *capture_open(const char *path, uint32_t snap_bytes, const char *interface, const char *comment,
                             bool is_virtual);

/* Add a frame seen at `at_ns`. */
void capture_frame(struct capture *capture, const uint8_t *frame, uint32_t length, int64_t at_ns,
                   enum capture_direction direction);

/* Remember that a frame could not be added, for want of what the errno tells. */
void capture_lose(struct capture *capture, int error);

/* The path it was opened with. */
const char *capture_path(const struct capture *capture);

/* Write out what is buffered and the statistics, and close; false with errno: something was not written. */
bool capture_close(struct capture *capture);

#endif
