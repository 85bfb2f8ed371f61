#include "replicas.h"

#include <stdlib.h>
#include <string.h>

bool replicas_set(struct replica_lists *lists, uint16_t number, const struct replica *replicas, uint32_t count)
{
    struct replica *own = malloc((count + 1) * sizeof *own);
    if (own && number >= lists->count) {
        struct replica_list *grown = realloc(lists->lists, (number + 1u) * sizeof *grown);
        if (grown) {
            memset(grown + lists->count, 0, (number + 1u - lists->count) * sizeof *grown);
            lists->lists = grown;
            lists->count = number + 1u;
        }
    }
    if (!own || number >= lists->count) {
        free(own);
        return false;
    }
    if (count)
        memcpy(own, replicas, count * sizeof *own);
    free(lists->lists[number].replicas);
    lists->lists[number] = (struct replica_list){own, count};
    return true;
}

void replicas_free(struct replica_lists *lists)
{
    for (uint32_t i = 0; i < lists->count; i++)
        free(lists->lists[i].replicas);
    free(lists->lists);
    *lists = (struct replica_lists){0};
}
