/* Instances of a program, and the control functions that only look things up by number. */
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_BYTES 512

static void *array_of(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

static bool allocate(struct p4_instance *s)
{
    const struct program_type *type = s->type;
    s->tables = array_of(type->table_count, sizeof *s->tables);
    s->profiles = array_of(type->profile_count, sizeof *s->profiles);
    s->registers = array_of(type->register_count, sizeof *s->registers);
    s->counters = array_of(type->counter_count, sizeof *s->counters);
    s->meters = array_of(type->meter_count, sizeof *s->meters);
    s->value_sets = array_of(type->value_set_count, sizeof *s->value_sets);
    if (!s->tables || !s->profiles || !s->registers || !s->counters || !s->meters || !s->value_sets)
        return false;
    for (uint32_t i = 0; i < type->register_count; i++)
        if (!(s->registers[i] = array_of(type->registers[i].size, type->registers[i].cell_bytes)))
            return false;
    for (uint32_t i = 0; i < type->counter_count; i++)
        if (!(s->counters[i] = array_of(type->counters[i], sizeof **s->counters)))
            return false;
    for (uint32_t i = 0; i < type->meter_count; i++)
        if (!(s->meters[i] = array_of(type->meters[i].size, sizeof **s->meters)))
            return false;
    for (uint32_t i = 0; i < type->profile_count; i++)
        s->profiles[i].type = &type->profiles[i];
    for (uint32_t i = 0; i < type->table_count; i++)
        if (table_init(&s->tables[i], &type->tables[i]))
            return false;
    return true;
}

struct p4_instance *instance_new(const struct program_type *type, const struct p4_host *host)
{
    struct p4_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return NULL;
    instance->type = type;
    instance->host = host ? *host : (struct p4_host){0};
    instance->random = instance->host.seed;
    if (!allocate(instance)) {
        instance_destroy(instance);
        return NULL;
    }
    return instance;
}

void instance_destroy(struct p4_instance *s)
{
    const struct program_type *type = s->type;
    for (uint32_t i = 0; s->tables && i < type->table_count; i++)
        table_free(&s->tables[i]);
    for (uint32_t i = 0; s->profiles && i < type->profile_count; i++)
        profile_free(&s->profiles[i]);
    for (uint32_t i = 0; s->registers && i < type->register_count; i++)
        free(s->registers[i]);
    for (uint32_t i = 0; s->counters && i < type->counter_count; i++)
        free(s->counters[i]);
    for (uint32_t i = 0; s->meters && i < type->meter_count; i++)
        free(s->meters[i]);
    for (uint32_t i = 0; s->value_sets && i < type->value_set_count; i++)
        free(s->value_sets[i].values);
    free(s->tables);
    free(s->profiles);
    free(s->registers);
    free(s->counters);
    free(s->meters);
    free(s->value_sets);
    free(s);
}

void instance_log(const struct p4_instance *instance, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    if (!instance->host.log)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    instance->host.log(instance->host.self, line);
}

/* Tables */

int control_insert(struct p4_instance *s, uint32_t table, const struct p4_match *match, const struct p4_call *call,
                   uint32_t *handle)
{
    return table < s->type->table_count ? table_insert(&s->tables[table], match, call, handle) : P4_NOT_FOUND;
}

int control_find(struct p4_instance *s, uint32_t table, const struct p4_match *match, uint32_t *handle)
{
    return table < s->type->table_count ? table_find(&s->tables[table], match, handle) : P4_NOT_FOUND;
}

int control_modify(struct p4_instance *s, uint32_t table, uint32_t handle, const struct p4_call *call)
{
    return table < s->type->table_count ? table_modify(&s->tables[table], handle, call) : P4_NOT_FOUND;
}

int control_remove(struct p4_instance *s, uint32_t table, uint32_t handle)
{
    return table < s->type->table_count ? table_remove(&s->tables[table], handle) : P4_NOT_FOUND;
}

int control_set_default(struct p4_instance *s, uint32_t table, const struct p4_call *call)
{
    return table < s->type->table_count ? table_set_default(&s->tables[table], call) : P4_NOT_FOUND;
}

static struct entry *entry_of(struct p4_instance *s, uint32_t table, uint32_t handle)
{
    return table < s->type->table_count ? table_entry(&s->tables[table], handle) : NULL;
}

int control_entry_count(struct p4_instance *s, uint32_t table, uint32_t handle, struct p4_count *out)
{
    if (!entry_of(s, table, handle))
        return P4_NOT_FOUND;
    if (!s->type->tables[table].counted)
        return P4_INVALID;
    *out = table_at(&s->tables[table], handle)->count;
    return P4_OK;
}

int control_entry_count_set(struct p4_instance *s, uint32_t table, uint32_t handle, const struct p4_count *count)
{
    if (!entry_of(s, table, handle))
        return P4_NOT_FOUND;
    if (!s->type->tables[table].counted)
        return P4_INVALID;
    table_at(&s->tables[table], handle)->count = *count;
    return P4_OK;
}

int control_entry_meter_set(struct p4_instance *s, uint32_t table, uint32_t handle, const struct p4_rates *rates)
{
    if (!entry_of(s, table, handle))
        return P4_NOT_FOUND;
    if (!s->type->tables[table].metered)
        return P4_INVALID;
    meter_configure(&s->tables[table].meters[handle], rates);
    return P4_OK;
}

/* Action profiles */

int control_member_add(struct p4_instance *s, uint32_t profile, const struct p4_call *call, uint32_t *member)
{
    return profile < s->type->profile_count ? profile_member_add(&s->profiles[profile], call, member) : P4_NOT_FOUND;
}

int control_member_modify(struct p4_instance *s, uint32_t profile, uint32_t member, const struct p4_call *call)
{
    return profile < s->type->profile_count ? profile_member_modify(&s->profiles[profile], member, call) : P4_NOT_FOUND;
}

int control_member_remove(struct p4_instance *s, uint32_t profile, uint32_t member)
{
    return profile < s->type->profile_count ? profile_member_remove(&s->profiles[profile], member) : P4_NOT_FOUND;
}

int control_group_set(struct p4_instance *s, uint32_t profile, uint32_t group, const uint32_t *members, uint32_t count)
{
    return profile < s->type->profile_count ? profile_group_set(&s->profiles[profile], group, members, count) : P4_NOT_FOUND;
}

int control_group_remove(struct p4_instance *s, uint32_t profile, uint32_t group)
{
    return profile < s->type->profile_count ? profile_group_remove(&s->profiles[profile], group) : P4_NOT_FOUND;
}

/* Arrays */

static uint8_t *cell_of(struct p4_instance *s, uint32_t array, uint32_t index)
{
    if (array >= s->type->register_count || index >= s->type->registers[array].size)
        return NULL;
    return s->registers[array] + (size_t)index * s->type->registers[array].cell_bytes;
}

int control_register_read(struct p4_instance *s, uint32_t array, uint32_t index, uint8_t *value)
{
    const uint8_t *cell = cell_of(s, array, index);
    if (!cell)
        return P4_NOT_FOUND;
    unsigned count = (s->type->registers[array].bits + 7u) / 8;
    for (unsigned i = 0; i < count; i++)
        value[i] = cell[count - 1 - i];
    return P4_OK;
}

int control_register_write(struct p4_instance *s, uint32_t array, uint32_t index, const uint8_t *value)
{
    uint8_t *cell = cell_of(s, array, index);
    if (!cell)
        return P4_NOT_FOUND;
    unsigned bits = s->type->registers[array].bits, count = (bits + 7) / 8;
    for (unsigned i = 0; i < count; i++)
        cell[count - 1 - i] = i == 0 && bits % 8 ? value[i] & ((1u << bits % 8) - 1) : value[i];
    return P4_OK;
}

int control_counter_read(struct p4_instance *s, uint32_t array, uint32_t index, struct p4_count *out)
{
    if (array >= s->type->counter_count || index >= s->type->counters[array])
        return P4_NOT_FOUND;
    *out = s->counters[array][index];
    return P4_OK;
}

int control_counter_write(struct p4_instance *s, uint32_t array, uint32_t index, const struct p4_count *count)
{
    if (array >= s->type->counter_count || index >= s->type->counters[array])
        return P4_NOT_FOUND;
    s->counters[array][index] = *count;
    return P4_OK;
}

int control_meter_set(struct p4_instance *s, uint32_t array, uint32_t index, const struct p4_rates *rates)
{
    if (array >= s->type->meter_count || index >= s->type->meters[array].size)
        return P4_NOT_FOUND;
    meter_configure(&s->meters[array][index], rates);
    return P4_OK;
}

/* Value sets */

int control_value_set_add(struct p4_instance *s, uint32_t number, const uint8_t *value, const uint8_t *mask)
{
    if (number >= s->type->value_set_count)
        return P4_NOT_FOUND;
    struct value_set *set = &s->value_sets[number];
    unsigned bytes = s->type->value_sets[number].bytes;
    if (set->count >= s->type->value_sets[number].max_size)
        return P4_FULL;
    uint8_t *values = realloc(set->values, (set->count + 1u) * 2u * bytes);
    if (!values)
        return P4_NO_MEMORY;
    set->values = values;
    for (unsigned i = 0; i < bytes; i++) {
        values[set->count * 2 * bytes + i] = value[i];
        values[(set->count * 2 + 1) * bytes + i] = mask ? mask[i] : 0xff;
    }
    set->count++;
    return P4_OK;
}

int control_value_set_clear(struct p4_instance *s, uint32_t number)
{
    if (number >= s->type->value_set_count)
        return P4_NOT_FOUND;
    s->value_sets[number].count = 0;
    return P4_OK;
}

bool value_set_has(const struct value_set *set, unsigned bytes, const uint8_t *value)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const uint8_t *own = set->values + (size_t)i * 2 * bytes;
        unsigned k = 0;
        while (k < bytes && !((own[k] ^ value[k]) & own[bytes + k]))
            k++;
        if (k == bytes)
            return true;
    }
    return false;
}
