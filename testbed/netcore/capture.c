#include "capture.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTE_ORDER_MAGIC 0x1a2b3c4d
#define LINKTYPE_ETHERNET 1
#define SNAP_MAX 65549 /* FRAME_MAX_BYTES */
#define APPLICATION "Testbed"
#define TIME_RESOLUTION 9 /* 10^-9 s */

enum block_type { INTERFACE_DESCRIPTION = 1, INTERFACE_STATISTICS = 5, ENHANCED_PACKET = 6, SECTION_HEADER = 0x0a0d0d0a };

enum option {
    END_OF_OPTIONS = 0,
    COMMENT = 1,
    SECTION_APPLICATION = 4,
    INTERFACE_NAME = 2,
    INTERFACE_RESOLUTION = 9,
    PACKET_DIRECTION = 2,
    STATISTICS_START = 2,
    STATISTICS_END = 3,
    STATISTICS_RECEIVED = 4,
    STATISTICS_DROPPED = 5,
};

struct section {
    uint32_t byte_order;
    uint16_t major, minor;
    int64_t length; /* -1: not told */
};

struct interface {
    uint16_t link_type, reserved;
    uint32_t snap;
};

struct instant {
    uint32_t high, low;
};

struct enhanced {
    uint32_t interface;
    struct instant at;
    uint32_t captured, length;
};

struct statistics {
    uint32_t interface;
    struct instant at;
};

/* What a block has beside its frame and texts. */
#define BLOCK_FIXED_MAX 256

struct capture {
    int fd;
    int error;
    char *path;
    uint32_t snap_bytes;
    bool is_virtual;
    int64_t realtime_offset_ns;
    int64_t started_ns;
    int64_t last_ns; /* of the last frame */
    uint64_t frames;
    size_t used;
    size_t block; /* where the block begins that is being made */
    uint8_t buffer[CAPTURE_BUFFER_BYTES];
};

static void flush(struct capture *capture)
{
    for (size_t done = 0; done < capture->used && !capture->error;) {
        ssize_t written = write(capture->fd, capture->buffer + done, capture->used - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            capture->error = errno;
    }
    capture->used = 0;
}

/* Everything in a block is padded to 32 bits. */
static void put(struct capture *capture, const void *bytes, size_t length)
{
    size_t padding = -length & 3;
    memcpy(capture->buffer + capture->used, bytes, length);
    memset(capture->buffer + capture->used + length, 0, padding);
    capture->used += length + padding;
}

static void put_option(struct capture *capture, enum option code, const void *value, size_t length)
{
    uint16_t header[2] = {(uint16_t)code, (uint16_t)length};
    put(capture, header, sizeof header);
    put(capture, value, length);
}

static void put_text(struct capture *capture, enum option code, const char *text)
{
    size_t length = strnlen(text, CAPTURE_TEXT_MAX);
    if (length)
        put_option(capture, code, text, length);
}

/* Begin a block that will have `extra` bytes beside its fixed parts. Its length is known, and written, when it ends. */
static void begin_block(struct capture *capture, enum block_type type, size_t extra)
{
    uint32_t header[2] = {type, 0};
    if (capture->used + BLOCK_FIXED_MAX + extra > sizeof capture->buffer)
        flush(capture);
    capture->block = capture->used;
    put(capture, header, sizeof header);
}

static void end_block(struct capture *capture)
{
    uint32_t length = (uint32_t)(capture->used - capture->block) + sizeof(uint32_t[2]);
    uint32_t tail[2] = {END_OF_OPTIONS, length};
    put(capture, tail, sizeof tail);
    memcpy(capture->buffer + capture->block + sizeof length, &length, sizeof length);
}

static struct instant instant(int64_t time_ns)
{
    return (struct instant){(uint32_t)((uint64_t)time_ns >> 32), (uint32_t)time_ns};
}

/* The time of day; a virtual clock was last seen when a frame came. */
static int64_t now_ns(const struct capture *capture)
{
    return capture->is_virtual ? capture->last_ns : clock_monotonic_ns() + capture->realtime_offset_ns;
}

static void put_headers(struct capture *capture, const char *interface, const char *comment)
{
    struct section section = {BYTE_ORDER_MAGIC, 1, 0, -1};
    begin_block(capture, SECTION_HEADER, 0);
    put(capture, &section, sizeof section);
    put_text(capture, SECTION_APPLICATION, APPLICATION);
    end_block(capture);

    struct interface description = {LINKTYPE_ETHERNET, 0, capture->snap_bytes};
    uint8_t resolution = TIME_RESOLUTION;
    begin_block(capture, INTERFACE_DESCRIPTION, 2 * CAPTURE_TEXT_MAX);
    put(capture, &description, sizeof description);
    put_text(capture, INTERFACE_NAME, interface);
    put_text(capture, COMMENT, comment);
    put_option(capture, INTERFACE_RESOLUTION, &resolution, sizeof resolution);
    end_block(capture);
}

/* No frame is dropped: the capture stands where every frame passes. */
static void put_statistics(struct capture *capture)
{
    int64_t ended_ns = now_ns(capture);
    struct instant start = instant(capture->started_ns), end = instant(ended_ns);
    struct statistics statistics = {0, end};
    uint64_t dropped = 0;
    begin_block(capture, INTERFACE_STATISTICS, 0);
    put(capture, &statistics, sizeof statistics);
    put_option(capture, STATISTICS_START, &start, sizeof start);
    put_option(capture, STATISTICS_END, &end, sizeof end);
    put_option(capture, STATISTICS_RECEIVED, &capture->frames, sizeof capture->frames);
    put_option(capture, STATISTICS_DROPPED, &dropped, sizeof dropped);
    end_block(capture);
}

struct capture *capture_open(const char *path, uint32_t snap_bytes, const char *interface, const char *comment,
                             bool is_virtual)
{
    struct capture *capture = malloc(sizeof *capture);
    char *kept = capture ? strdup(path) : NULL;
    int fd = kept ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (fd < 0) {
        free(kept);
        free(capture);
        return NULL;
    }
    capture->fd = fd;
    capture->path = kept;
    capture->error = 0;
    capture->used = 0;
    capture->frames = 0;
    capture->snap_bytes = snap_bytes < SNAP_MAX ? snap_bytes : SNAP_MAX;
    capture->is_virtual = is_virtual;
    capture->last_ns = 0;
    capture->realtime_offset_ns = is_virtual ? 0 : clock_realtime_offset_ns();
    capture->started_ns = now_ns(capture);
    put_headers(capture, interface, comment);
    return capture;
}

void capture_frame(struct capture *capture, const uint8_t *frame, uint32_t length, int64_t at_ns,
                   enum capture_direction direction)
{
    uint32_t kept = length < capture->snap_bytes ? length : capture->snap_bytes, flags = direction;
    struct enhanced packet = {0, instant(at_ns + capture->realtime_offset_ns), kept, length};
    begin_block(capture, ENHANCED_PACKET, kept);
    put(capture, &packet, sizeof packet);
    put(capture, frame, kept);
    put_option(capture, PACKET_DIRECTION, &flags, sizeof flags);
    end_block(capture);
    capture->frames++;
    capture->last_ns = at_ns;
}

void capture_lose(struct capture *capture, int error)
{
    capture->error = error;
}

const char *capture_path(const struct capture *capture)
{
    return capture->path;
}

bool capture_close(struct capture *capture)
{
    put_statistics(capture);
    flush(capture);
    int error = capture->error;
    if (close(capture->fd) != 0 && !error)
        error = errno;
    free(capture->path);
    free(capture);
    errno = error;
    return !error;
}
