// What every P4_16 program builds on, after chapter "P4 core library" of the P4_16 language specification.
#ifndef _CORE_P4_
#define _CORE_P4_

/// Errors that a parser raises.
error {
    NoError,           // all is well
    PacketTooShort,    // the packet holds too few bits for extract, advance or lookahead
    NoMatch,           // no label of a select matches
    StackOutOfBounds,  // a header stack is full or an element beyond its end is asked for
    HeaderTooShort,    // a varbit field takes fewer bits than extract is told to read
    ParserTimeout,     // the parser takes too long
    ParserInvalidArgument  // extract is told to read a number of bits that the target cannot read
}

/// The packet that a parser reads.
extern packet_in {
    /// Reads a header of fixed size and makes it valid.
    void extract<T>(out T hdr);
    /// Reads a header with one varbit field, which gets `variableFieldSizeInBits` bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /// The next bits as a value of type T; the packet stays where it is.
    T lookahead<T>();
    /// Skips bits.
    void advance(in bit<32> sizeInBits);
    /// The packet's length in bytes.
    bit<32> length();
}

/// The packet that a deparser writes.
extern packet_out {
    /// Appends a valid header; of a stack, union or struct all parts that are valid.
    void emit<T>(in T hdr);
}

/// Ends the parser with `toSignal` unless `check` holds.
extern void verify(in bool check, in error toSignal);

/// The action of tables that name none.
@noWarn("unused")
action NoAction() { }

match_kind {
    exact,
    ternary,
    lpm
}

/// Holds when compiling, or the program is refused.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
