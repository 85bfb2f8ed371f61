"""Settling the type variables of a generic call from the types of what is passed."""

from collections.abc import Mapping, Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.types import UNKNOWN, Bits, Integer, Type, TypeVariable


class Inference:
    """What the type variables `variables` stand for, as found out so far."""

    def __init__(self, variables: Sequence[TypeVariable], known: Mapping[ast.Node, Type]) -> None:
        self.bindings: dict[TypeVariable, Type] = {}
        self._known = known  # the types of the parameters of parsers and controls
        self._variables = frozenset(variables)

    @property
    def unsettled(self) -> list[TypeVariable]:
        return sorted((one for one in self._variables if one not in self.bindings), key=lambda one: one.number)

    def bind(self, variable: TypeVariable, given: Type) -> None:
        self.bindings[variable] = given

    def agree(self, formal: Type, actual: Type) -> bool:
        """Make `formal` mean `actual`, as far as variables allow; numbers without width fit any width."""
        if UNKNOWN in (formal, actual) or formal == actual:
            return True
        if isinstance(formal, TypeVariable) and formal in self._variables:
            return self._settle(formal, actual)
        match formal, actual:
            case types.StructType() | types.ExternType(), types.StructType() | types.ExternType():
                return formal.declaration is actual.declaration and self._all(formal.arguments, actual.arguments)
            case types.BlockType(), types.BlockType():
                return self._block(formal, actual)
            case types.Stack(element, size), types.Stack(other, other_size):
                return size == other_size and self.agree(element, other)
            case types.Tuple(elements), types.Tuple(others):
                return self._all(elements, others)
            case types.List(element), types.List(other):
                return self.agree(element, other)
            case types.Set(element), types.Set(other):
                return self.agree(element, other)
            case types.StructType(fields=fields), types.Tuple(others) if len(fields) == len(others):
                return self._all(tuple(one for _, one in fields), others)
            case types.StructType(fields=fields), types.Record(others_by_name):
                named = dict(others_by_name)
                return all(name in named and self.agree(one, named[name]) for name, one in fields)
        return True  # whoever converts the argument to the parameter's type says what is wrong

    def _all(self, formals: Sequence[Type], actuals: Sequence[Type]) -> bool:
        return len(formals) == len(actuals) and all(map(self.agree, formals, actuals))

    def _settle(self, variable: TypeVariable, actual: Type) -> bool:
        known = self.bindings.get(variable)
        if known is None or (isinstance(known, Integer) and isinstance(types.plain(actual), Bits)):
            self.bindings[variable] = actual
            return True
        if isinstance(actual, Integer) and isinstance(types.plain(known), Bits):
            return True
        if isinstance(known, types.Tuple) and isinstance(actual, types.StructType | types.Tuple):
            if isinstance(actual, types.StructType):
                self.bindings[variable] = actual
            return True
        return known == actual or isinstance(actual, types.Tuple | types.Record | types.RestType)

    def _block(self, formal: types.BlockType, actual: types.BlockType) -> bool:
        """Whether a parser, control or package has the signature that `formal` asks for."""
        wanted, given = formal.declaration, actual.declaration
        if wanted is given:
            return self._all(formal.arguments, actual.arguments)
        are_parsers = isinstance(wanted, ast.ParserType) and isinstance(given, ast.Parser)
        are_controls = isinstance(wanted, ast.ControlType) and isinstance(given, ast.Control)
        if not (are_parsers or are_controls) or len(wanted.parameters) != len(given.parameters):
            return False
        assert isinstance(wanted, ast.ParserType | ast.ControlType)
        own = dict(zip(map(TypeVariable, wanted.type_parameters), formal.arguments, strict=False))
        for asked, has in zip(wanted.parameters, given.parameters, strict=True):
            asked_type = types.substitute(self._known.get(asked, UNKNOWN), own)
            has_type = self._known.get(has, UNKNOWN)
            if asked.direction is not has.direction or not self.agree(asked_type, has_type):
                return False
            if not types.has_variables(asked_type) and UNKNOWN not in (asked_type, has_type) and asked_type != has_type:
                return False
        return True
