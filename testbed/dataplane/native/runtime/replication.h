/* Multicast groups and clone sessions: where copies go. Any traffic manager can share it. */
#ifndef P4_REPLICATION_H
#define P4_REPLICATION_H

#include <stdbool.h>
#include <stdint.h>

struct replica {
    uint32_t port;
    uint16_t rid;
};

struct replica_group {
    struct replica *replicas; /* in the order in which copies are made */
    uint32_t count;
};

struct clone_session {
    bool to_port, to_group;
    uint32_t port;
    uint16_t group;
};

struct replication {
    struct replica_group *groups;   /* by number */
    struct clone_session *sessions; /* by number */
    uint32_t group_count, session_count;
};

/* All return false without memory. A group of no replicas and a session without targets are as good as none. */
bool replication_set_group(struct replication *replication, uint16_t group, const struct replica *replicas, uint32_t count);
bool replication_set_session(struct replication *replication, uint16_t session, struct clone_session config);
void replication_free(struct replication *replication);

static inline const struct replica_group *replication_group(const struct replication *replication, uint32_t group)
{
    static const struct replica_group none = {0};
    return group < replication->group_count ? &replication->groups[group] : &none;
}

static inline struct clone_session replication_session(const struct replication *replication, uint32_t session)
{
    return session < replication->session_count ? replication->sessions[session] : (struct clone_session){0};
}

#endif
