#include "capture.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC_NANOSECONDS 0xa1b23c4d /* https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html */
#define LINKTYPE_ETHERNET 1
#define SNAP_MAX 65549 /* FRAME_MAX_BYTES */

struct file_header {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t reserved[2];
    uint32_t snap;
    uint32_t link_type;
};

struct record_header {
    uint32_t seconds, nanoseconds;
    uint32_t captured, length;
};

struct capture {
    int fd;
    int error;
    char *path;
    uint32_t snap_bytes;
    int64_t realtime_offset_ns;
    size_t used;
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

static void put(struct capture *capture, const void *bytes, size_t length)
{
    memcpy(capture->buffer + capture->used, bytes, length);
    capture->used += length;
}

struct capture *capture_open(const char *path, uint32_t snap_bytes)
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
    capture->snap_bytes = snap_bytes < SNAP_MAX ? snap_bytes : SNAP_MAX;
    capture->realtime_offset_ns = clock_realtime_offset_ns();
    struct file_header header = {MAGIC_NANOSECONDS, 2, 4, {0, 0}, capture->snap_bytes, LINKTYPE_ETHERNET};
    put(capture, &header, sizeof header);
    return capture;
}

void capture_frame(struct capture *capture, const uint8_t *frame, uint32_t length, int64_t at_ns)
{
    int64_t time_ns = at_ns + capture->realtime_offset_ns;
    uint32_t kept = length < capture->snap_bytes ? length : capture->snap_bytes;
    struct record_header header = {(uint32_t)(time_ns / NS_PER_S), (uint32_t)(time_ns % NS_PER_S), kept, length};
    if (capture->used + sizeof header + kept > sizeof capture->buffer)
        flush(capture);
    put(capture, &header, sizeof header);
    put(capture, frame, kept);
}

const char *capture_path(const struct capture *capture)
{
    return capture->path;
}

bool capture_close(struct capture *capture)
{
    flush(capture);
    int error = capture->error;
    if (close(capture->fd) != 0 && !error)
        error = errno;
    free(capture->path);
    free(capture);
    errno = error;
    return !error;
}
