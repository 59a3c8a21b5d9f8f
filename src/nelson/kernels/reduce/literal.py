"""DIMACS literals: +v has code 2(v-1), -v has code 2(v-1)+1, and `code ^ 1` negates."""

from nelson.kernels.core.compile import inline


@inline
def code_of(literal):
    return 2 * (abs(literal) - 1) + (1 if literal < 0 else 0)


@inline
def sign_of(literal):
    return 1 if literal > 0 else -1
