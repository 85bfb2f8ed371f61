/* Keys and action data as they come by the ABI, in the words that tables keep. */
#include "parts.h"

static void key_bit_set(uint64_t *words, unsigned bit, bool value)
{
    uint64_t mask = UINT64_C(1) << (63 - bit % 64);
    words[bit / 64] = value ? words[bit / 64] | mask : words[bit / 64] & ~mask;
}

static bool field_bit(const uint8_t *bytes, const struct key_field *field, unsigned bit)
{
    unsigned at = bit + (8 - field->width % 8) % 8;
    return bytes[at / 8] >> (7 - at % 8) & 1;
}

static int pack_field(const struct table_type *type, const struct key_field *field, const uint8_t *value,
                      const uint8_t *mask, struct packed *out)
{
    bool common = true, ended = false;
    for (unsigned bit = 0; bit < field->width; bit++) {
        bool v = field_bit(value, field, bit), m = field->match == MATCH_EXACT || field_bit(mask, field, bit);
        if (field->match == MATCH_RANGE) {
            if (common && v && !m)
                return P4_INVALID;
            key_bit_set(out->high, field->offset + bit, m);
            common = common && v == m;
            key_bit_set(out->mask, field->offset + bit, common);
            key_bit_set(out->key, field->offset + bit, v);
            continue;
        }
        if (field->match == MATCH_LPM) {
            if (m && ended)
                return P4_INVALID;
            ended = !m;
            if (m && type->kind == TABLE_LPM)
                out->prefix = field->offset + bit + 1u;
        }
        key_bit_set(out->mask, field->offset + bit, m);
        key_bit_set(out->key, field->offset + bit, v && m);
        key_bit_set(out->high, field->offset + bit, v && m);
    }
    return P4_OK;
}

int key_pack(const struct table_type *type, const struct p4_match *match, struct packed *out)
{
    *out = (struct packed){.prefix = 0};
    if (type->kind == TABLE_LPM) {
        for (uint32_t i = 0; i < type->field_count; i++)
            if (type->fields[i].match == MATCH_LPM)
                out->prefix = type->fields[i].offset;
    }
    unsigned at = 0;
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct key_field *field = &type->fields[i];
        int status = pack_field(type, field, match->value + at, match->mask ? match->mask + at : NULL, out);
        if (status)
            return status;
        at += (field->width + 7u) / 8;
    }
    return P4_OK;
}

int unpack_data(const struct action_type *actions, uint32_t action_count, const struct p4_call *call, uint64_t *words)
{
    if (call->number >= action_count)
        return P4_INVALID;
    const struct action_type *action = &actions[call->number];
    const uint8_t *bytes = call->data;
    for (uint32_t i = 0; i < action->count; i++) {
        unsigned width = action->widths[i], count = (width + 7) / 8;
        for (unsigned low = 0; low < width; low += 64) {
            unsigned take = width - low < 64 ? width - low : 64;
            *words++ = load_bits(bytes, 8 * count - low - take, take);
        }
        bytes += count;
    }
    return P4_OK;
}
