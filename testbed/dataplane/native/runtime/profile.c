/* Action profiles: members, and groups among whose members a hash picks. */
#include "table.h"

#include <stdlib.h>

#define FIRST_MEMBERS 16
#define MAX_GROUPS 65536

static bool member_exists(const struct profile *profile, uint32_t member)
{
    return member < profile->count && profile->members[member].used;
}

int profile_member_add(struct profile *profile, const struct p4_call *call, uint32_t *member)
{
    const struct profile_type *type = profile->type;
    uint32_t at = 0;
    while (at < profile->count && profile->members[at].used)
        at++;
    if (at >= type->max_size)
        return P4_FULL;
    if (at == profile->capacity) {
        uint32_t capacity = profile->capacity ? profile->capacity * 2 : FIRST_MEMBERS;
        struct member *members = realloc(profile->members, capacity * sizeof *members);
        if (!members)
            return P4_NO_MEMORY;
        profile->members = members;
        uint64_t *data = realloc(profile->data, ((size_t)capacity * type->data_words + 1) * sizeof *data);
        if (!data)
            return P4_NO_MEMORY;
        profile->data = data;
        profile->capacity = capacity;
    }
    if (at == profile->count)
        profile->members[profile->count++] = (struct member){0};
    profile->members[at].used = true;
    int status = profile_member_modify(profile, at, call);
    profile->members[at].used = !status;
    *member = at;
    return status;
}

int profile_member_modify(struct profile *profile, uint32_t member, const struct p4_call *call)
{
    const struct profile_type *type = profile->type;
    if (!member_exists(profile, member))
        return P4_NOT_FOUND;
    if (call->kind != P4_CALL_ACTION)
        return P4_INVALID;
    int status = unpack_data(type->actions, type->action_count, call, profile->data + (size_t)member * type->data_words);
    if (!status)
        profile->members[member].action = call->number;
    return status;
}

int profile_member_remove(struct profile *profile, uint32_t member)
{
    if (!member_exists(profile, member))
        return P4_NOT_FOUND;
    for (uint32_t i = 0; i < profile->group_count; i++)
        for (uint32_t k = 0; k < profile->groups[i].count; k++)
            if (profile->groups[i].members[k] == member)
                return P4_INVALID;
    profile->members[member].used = false;
    return P4_OK;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int profile_group_set(struct profile *profile, uint32_t number, const uint32_t *members, uint32_t count)
{
    if (number >= MAX_GROUPS)
        return P4_INVALID;
    for (uint32_t i = 0; i < count; i++)
        if (!member_exists(profile, members[i]))
            return P4_NOT_FOUND;
    uint32_t *own = malloc((count + 1) * sizeof *own);
    if (!own)
        return P4_NO_MEMORY;
    if (count)
        memcpy(own, members, count * sizeof *own);
    qsort(own, count, sizeof *own, by_number);
    if (number >= profile->group_count) {
        struct group *groups = realloc(profile->groups, (number + 1) * sizeof *groups);
        if (!groups) {
            free(own);
            return P4_NO_MEMORY;
        }
        memset(groups + profile->group_count, 0, (number + 1 - profile->group_count) * sizeof *groups);
        profile->groups = groups;
        profile->group_count = number + 1;
    }
    struct group *group = &profile->groups[number];
    free(group->members);
    group->members = own;
    group->count = count;
    return P4_OK;
}

int profile_group_remove(struct profile *profile, uint32_t number)
{
    if (number >= profile->group_count || !profile->groups[number].members)
        return P4_NOT_FOUND;
    free(profile->groups[number].members);
    profile->groups[number] = (struct group){0};
    return P4_OK;
}

uint32_t profile_pick(const struct profile *profile, uint32_t number, uint64_t hash)
{
    if (number >= profile->group_count || !profile->groups[number].count)
        return NO_ACTION;
    return profile->groups[number].members[hash % profile->groups[number].count];
}

void profile_free(struct profile *profile)
{
    for (uint32_t i = 0; i < profile->group_count; i++)
        free(profile->groups[i].members);
    free(profile->groups);
    free(profile->members);
    free(profile->data);
}
