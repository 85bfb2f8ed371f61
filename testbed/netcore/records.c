#include "records.h"

#include <stdlib.h>
#include <string.h>

bool records_keep(struct records *records, size_t limit, uint64_t first, uint64_t second, const void *bytes, size_t length)
{
    struct record *record = records->count < limit ? malloc(sizeof *record + length) : NULL;
    if (!record)
        return false;
    *record = (struct record){.about = {first, second}, .length = length};
    if (length)
        memcpy(record->bytes, bytes, length);
    if (records->first)
        *records->last = record;
    else
        records->first = record;
    records->last = &record->next;
    records->count++;
    return true;
}

struct record *records_take(struct records *records)
{
    struct record *first = records->first;
    *records = (struct records){0};
    return first;
}

void records_free(struct record *first)
{
    for (struct record *next; first; first = next) {
        next = first->next;
        free(first);
    }
}
