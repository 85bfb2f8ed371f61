/* Groups and sessions in arrays by number, which grow to the largest number in use. */
#include "replication.h"

#include <stdlib.h>
#include <string.h>

static bool grow(void **array, uint32_t *count, uint32_t wanted, size_t bytes)
{
    if (wanted <= *count)
        return true;
    uint8_t *grown = realloc(*array, wanted * bytes);
    if (!grown)
        return false;
    memset(grown + *count * bytes, 0, (wanted - *count) * bytes);
    *array = grown;
    *count = wanted;
    return true;
}

bool replication_set_group(struct replication *replication, uint16_t group, const struct replica *replicas, uint32_t count)
{
    void *groups = replication->groups;
    bool grown = grow(&groups, &replication->group_count, group + 1u, sizeof *replication->groups);
    replication->groups = groups;
    struct replica *own = malloc((count + 1) * sizeof *own);
    if (!grown || !own) {
        free(own);
        return false;
    }
    if (count)
        memcpy(own, replicas, count * sizeof *own);
    free(replication->groups[group].replicas);
    replication->groups[group] = (struct replica_group){own, count};
    return true;
}

bool replication_set_session(struct replication *replication, uint16_t session, struct clone_session config)
{
    void *sessions = replication->sessions;
    bool grown = grow(&sessions, &replication->session_count, session + 1u, sizeof *replication->sessions);
    replication->sessions = sessions;
    if (grown)
        replication->sessions[session] = config;
    return grown;
}

void replication_free(struct replication *replication)
{
    for (uint32_t i = 0; i < replication->group_count; i++)
        free(replication->groups[i].replicas);
    free(replication->groups);
    free(replication->sessions);
    *replication = (struct replication){0};
}
