"""ChaCAL's Triton kernels: exact, forward and backward, in blocks of rows, with no tensor of length × length.

All tensors are contiguous: queries, keys and values `[n, pos, d]` in float32 or half precision, everything else in
float32; all is computed in float32. γ comes with `rest`, 1 − γ, which is not exact as a difference of float32 numbers.

The names are those of `chacal_blocks`, whose equations these are, written once for both forms: X is what later rows
read, the solved values W for Eq. 5, (1−γ) V + γ Y for Eq. 7; and H is what a row passes down in backward,
(1−γ) dY + γ G for Eq. 5, U for Eq. 7.

Rows depend on all rows before them. So the blocks are taken in spans: what a span reads of earlier spans is computed
for all its blocks at once (`carry`, `carry_back`), and then one program for each sequence and head solves one block
after the other (`solve`, `solve_back`).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_rows(pointer, rows, n_pos, d, D: tl.constexpr):
    """The rows `[block, D]` of one sequence and head in float32; zero beyond its length and its width."""
    columns = tl.arange(0, D)
    inside = (rows < n_pos)[:, None] & (columns < d)[None, :]
    return tl.load(pointer + rows[:, None] * d + columns[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store_rows(pointer, values, rows, n_pos, d, D: tl.constexpr):
    """Write rows `[block, D]`, but for what is beyond the length and the width."""
    columns = tl.arange(0, D)
    inside = (rows < n_pos)[:, None] & (columns < d)[None, :]
    tl.store(pointer + rows[:, None] * d + columns[None, :], values, mask=inside)


@triton.jit
def _masked_scores(q, k, rows, keys, n_pos, scale, PRECISION: tl.constexpr):
    """Scores `[row, key]`; −inf where a key comes after its query."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    seen = (keys[None, :] <= rows[:, None]) & (keys < n_pos)[None, :]
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def _inverse(A, gamma, rest, DIAGONAL: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, LOG: tl.constexpr):
    """(I − γ A_s)⁻¹ of one block, BLOCK = 2^LOG.

    N = γ A_s is below the diagonal, so N^BLOCK = 0 and the series (I + N)(I + N²)(I + N⁴)… ends. Its terms are not
    negative: nothing cancels. With the diagonal the rows are divided by 1 − γ A_ii
    first, which is (1 − γ) + γ (1 − A_ii).
    """
    at = tl.arange(0, BLOCK)
    on_diagonal = at[:, None] == at[None, :]
    N = tl.where(at[:, None] > at[None, :], A * gamma, 0.0)
    if DIAGONAL:
        own = tl.sum(tl.where(on_diagonal, A, 0.0), 1)
        over = 1.0 / (rest + gamma * (1.0 - own))  # beyond the length rows are zero
        N = N * over[:, None]
    result = tl.where(on_diagonal, 1.0, N)
    for _ in range(LOG - 1):
        N = tl.dot(N, N, input_precision=PRECISION)
        result += tl.dot(result, N, input_precision=PRECISION)
    if DIAGONAL:
        result = result * over[None, :]
    return result


@triton.jit
def _read_block(q, k, x, rows, keys, n_pos, scale, total, largest, read, PRECISION: tl.constexpr):
    """One more block of keys, as flash attention takes it: rescale what was read, add what is read here."""
    scores = _masked_scores(q, k, rows, keys, n_pos, scale, PRECISION)
    new_largest = tl.maximum(largest, tl.max(scores, 1))
    weights, shrink = tl.exp(scores - new_largest[:, None]), tl.exp(largest - new_largest)
    read = read * shrink[:, None] + tl.dot(weights, x, input_precision=PRECISION)
    return total * shrink + tl.sum(weights, 1), new_largest, read


@triton.jit
def carry(
    q, k, x, carried, largest, total, n_pos, d, dv, scale, first,
    D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What each block of rows from block `first` on reads of the blocks before `first`, not yet over its sum."""
    n, here = tl.program_id(1).to(tl.int64), tl.arange(0, BLOCK)
    q, k, x, carried = q + n * n_pos * d, k + n * n_pos * d, x + n * n_pos * dv, carried + n * n_pos * dv
    rows = (first + tl.program_id(0)) * BLOCK + here
    queries = _load_rows(q, rows, n_pos, d, D)
    read = tl.zeros((BLOCK, DV), tl.float32)
    high, sums = tl.full((BLOCK,), float("-inf"), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for j in range(0, first):
        keys = j * BLOCK + here
        own_k, own_x = _load_rows(k, keys, n_pos, d, D), _load_rows(x, keys, n_pos, dv, DV)
        sums, high, read = _read_block(queries, own_k, own_x, rows, keys, n_pos, scale, sums, high, read, PRECISION)
    _store_rows(carried, read, rows, n_pos, dv, DV)
    tl.store(largest + n * n_pos + rows, high, mask=rows < n_pos)
    tl.store(total + n * n_pos + rows, sums, mask=rows < n_pos)


@triton.jit
def solve(
    q, k, v, x, y, lse, carried, largest, total, n_pos, d, dv, scale, gamma, rest, first, last,
    EQ5: tl.constexpr, DIAGONAL: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK: tl.constexpr, LOG: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """X, Y and the scores' log-sum-exp of blocks `first` to `last` of one sequence and head, one after the other."""
    n, here = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    q, k, v, x = q + n * n_pos * d, k + n * n_pos * d, v + n * n_pos * dv, x + n * n_pos * dv
    y, carried, lse = y + n * n_pos * dv, carried + n * n_pos * dv, lse + n * n_pos
    largest, total = largest + n * n_pos, total + n * n_pos
    for i in range(first, last):
        rows = i * BLOCK + here
        queries = _load_rows(q, rows, n_pos, d, D)
        read = _load_rows(carried, rows, n_pos, dv, DV)
        high = tl.load(largest + rows, mask=rows < n_pos, other=float("-inf"))
        sums = tl.load(total + rows, mask=rows < n_pos, other=0.0)
        for j in range(first, i):
            keys = j * BLOCK + here
            own_k, own_x = _load_rows(k, keys, n_pos, d, D), _load_rows(x, keys, n_pos, dv, DV)
            sums, high, read = _read_block(queries, own_k, own_x, rows, keys, n_pos, scale, sums, high, read, PRECISION)
        scores = _masked_scores(queries, _load_rows(k, rows, n_pos, d, D), rows, rows, n_pos, scale, PRECISION)
        new_high = tl.maximum(high, tl.max(scores, 1))
        weights, shrink = tl.exp(scores - new_high[:, None]), tl.exp(high - new_high)
        sums = sums * shrink + tl.sum(weights, 1)
        A, read = weights / sums[:, None], read * (shrink / sums)[:, None]
        own, values = _inverse(A, gamma, rest, DIAGONAL, PRECISION, BLOCK, LOG), _load_rows(v, rows, n_pos, dv, DV)
        if EQ5:
            solved = tl.dot(own, values + gamma * read, input_precision=PRECISION)
            out = rest * (read + tl.dot(A, solved, input_precision=PRECISION))
        else:
            rhs = read + rest * tl.dot(A, values, input_precision=PRECISION)
            out = tl.dot(own, rhs, input_precision=PRECISION)
            solved = rest * values + gamma * out
        _store_rows(x, solved, rows, n_pos, dv, DV)
        _store_rows(y, out, rows, n_pos, dv, DV)
        tl.store(lse + rows, new_high + tl.log(sums), mask=rows < n_pos)
        tl.debug_barrier()  # the next block reads this one's X


@triton.jit
def _passed_down(q, k, lse, h, rows, keys, n_pos, d, dv, scale, own_k, D: tl.constexpr, DV: tl.constexpr,
                PRECISION: tl.constexpr):  # fmt: skip
    """A_rows,keysᵀ H_rows: what a block of rows passes down to earlier keys."""
    log_sums = tl.load(lse + rows, mask=rows < n_pos, other=float("inf"))
    scores = _masked_scores(_load_rows(q, rows, n_pos, d, D), own_k, rows, keys, n_pos, scale, PRECISION)
    A = tl.exp(scores - log_sums[:, None])
    return tl.dot(tl.trans(A), _load_rows(h, rows, n_pos, dv, DV), input_precision=PRECISION)


@triton.jit
def carry_back(
    q, k, lse, h, pending, n_pos, d, dv, scale, first, last, n_blocks,
    D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What the blocks from `last` on pass down to each block of keys from `first` on."""
    n, here = tl.program_id(1).to(tl.int64), tl.arange(0, BLOCK)
    q, k, lse = q + n * n_pos * d, k + n * n_pos * d, lse + n * n_pos
    h, pending = h + n * n_pos * dv, pending + n * n_pos * dv
    keys = (first + tl.program_id(0)) * BLOCK + here
    own_k, down = _load_rows(k, keys, n_pos, d, D), tl.zeros((BLOCK, DV), tl.float32)
    for j in range(last, n_blocks):
        down += _passed_down(q, k, lse, h, j * BLOCK + here, keys, n_pos, d, dv, scale, own_k, D, DV, PRECISION)
    _store_rows(pending, down, keys, n_pos, dv, DV)


@triton.jit
def solve_back(
    q, k, lse, dy, h, grad_v, pending, n_pos, d, dv, scale, gamma, rest, first, last,
    EQ5: tl.constexpr, DIAGONAL: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK: tl.constexpr, LOG: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """H and ∂L/∂V of the blocks `first` to `last` of one sequence and head, from the last to the first."""
    n, here = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    q, k, lse, dy = q + n * n_pos * d, k + n * n_pos * d, lse + n * n_pos, dy + n * n_pos * dv
    h, grad_v, pending = h + n * n_pos * dv, grad_v + n * n_pos * dv, pending + n * n_pos * dv
    for step in range(0, last - first):
        i = last - 1 - step
        rows = i * BLOCK + here
        own_k, down = _load_rows(k, rows, n_pos, d, D), _load_rows(pending, rows, n_pos, dv, DV)
        for j in range(i + 1, last):
            down += _passed_down(q, k, lse, h, j * BLOCK + here, rows, n_pos, d, dv, scale, own_k, D, DV, PRECISION)
        log_sums = tl.load(lse + rows, mask=rows < n_pos, other=float("inf"))
        scores = _masked_scores(_load_rows(q, rows, n_pos, d, D), own_k, rows, rows, n_pos, scale, PRECISION)
        A = tl.exp(scores - log_sums[:, None])
        own, grad = (
            tl.trans(_inverse(A, gamma, rest, DIAGONAL, PRECISION, BLOCK, LOG)),
            _load_rows(dy, rows, n_pos, dv, DV),
        )
        if EQ5:
            rhs = down + rest * tl.dot(tl.trans(A), grad, input_precision=PRECISION)
            values = tl.dot(own, rhs, input_precision=PRECISION)
            left = rest * grad + gamma * values
        else:
            left = tl.dot(own, grad + gamma * down, input_precision=PRECISION)
            values = rest * (down + tl.dot(tl.trans(A), left, input_precision=PRECISION))
        _store_rows(h, left, rows, n_pos, dv, DV)
        _store_rows(grad_v, values, rows, n_pos, dv, DV)
        tl.debug_barrier()  # the block before reads this one's H


@triton.jit
def _pattern_gradient(
    q, k, h, x, lse, on_diagonal, rows, keys, n_pos, scale, DIAGONAL: tl.constexpr, PRECISION: tl.constexpr
):
    """One block of A and of ∂L/∂A, which is H Xᵀ but, without the diagonal inside, on the diagonal."""
    A = tl.exp(_masked_scores(q, k, rows, keys, n_pos, scale, PRECISION) - lse[:, None])
    grad = tl.dot(h, tl.trans(x), input_precision=PRECISION)
    if not DIAGONAL:
        grad = tl.where(rows[:, None] == keys[None, :], on_diagonal[:, None], grad)
    return A, grad


@triton.jit
def query_gradient(
    q, k, x, h, lse, delta, on_diagonal, grad_q, n_pos, d, dv, scale,
    DIAGONAL: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂L/∂q of every block of rows.

    With the diagonal inside, what cancels in ∂L/∂A − δ is up to 1/(1 − γ) times as large: δ is then summed here, from
    the very terms it is taken from, and written for `key_gradient`.
    """
    i, n, here = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.arange(0, BLOCK)
    q, k, x, h = q + n * n_pos * d, k + n * n_pos * d, x + n * n_pos * dv, h + n * n_pos * dv
    rows = i * BLOCK + here
    inside, at = rows < n_pos, n * n_pos + rows
    log_sums = tl.load(lse + at, mask=inside, other=float("inf"))
    less, diagonal = tl.load(delta + at, mask=inside, other=0.0), tl.load(on_diagonal + at, mask=inside, other=0.0)
    queries, left = _load_rows(q, rows, n_pos, d, D), _load_rows(h, rows, n_pos, dv, DV)
    if DIAGONAL:
        less = tl.zeros((BLOCK,), tl.float32)
        for j in range(0, i + 1):
            keys = j * BLOCK + here
            own_k, own_x = _load_rows(k, keys, n_pos, d, D), _load_rows(x, keys, n_pos, dv, DV)
            A, grad = _pattern_gradient(
                queries, own_k, left, own_x, log_sums, diagonal, rows, keys, n_pos, scale, DIAGONAL, PRECISION
            )
            less += tl.sum(A * grad, 1)
        tl.store(delta + at, less, mask=inside)
    result = tl.zeros((BLOCK, D), tl.float32)
    for j in range(0, i + 1):
        keys = j * BLOCK + here
        own_k, own_x = _load_rows(k, keys, n_pos, d, D), _load_rows(x, keys, n_pos, dv, DV)
        A, grad = _pattern_gradient(
            queries, own_k, left, own_x, log_sums, diagonal, rows, keys, n_pos, scale, DIAGONAL, PRECISION
        )
        result += tl.dot(A * (grad - less[:, None]), own_k, input_precision=PRECISION)
    _store_rows(grad_q + n * n_pos * d, result * scale, rows, n_pos, d, D)


@triton.jit
def key_gradient(
    q, k, x, h, lse, delta, on_diagonal, grad_k, n_pos, d, dv, scale, n_blocks,
    DIAGONAL: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂L/∂k of every block of keys."""
    j, n, here = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.arange(0, BLOCK)
    q, k, x, h = q + n * n_pos * d, k + n * n_pos * d, x + n * n_pos * dv, h + n * n_pos * dv
    keys = j * BLOCK + here
    own_k, own_x = _load_rows(k, keys, n_pos, d, D), _load_rows(x, keys, n_pos, dv, DV)
    result = tl.zeros((BLOCK, D), tl.float32)
    for i in range(j, n_blocks):
        rows = i * BLOCK + here
        inside, at = rows < n_pos, n * n_pos + rows
        log_sums = tl.load(lse + at, mask=inside, other=float("inf"))
        less, diagonal = tl.load(delta + at, mask=inside, other=0.0), tl.load(on_diagonal + at, mask=inside, other=0.0)
        queries, left = _load_rows(q, rows, n_pos, d, D), _load_rows(h, rows, n_pos, dv, DV)
        A, grad = _pattern_gradient(
            queries, own_k, left, own_x, log_sums, diagonal, rows, keys, n_pos, scale, DIAGONAL, PRECISION
        )
        changed = A * (grad - less[:, None])
        result += tl.dot(tl.trans(changed), queries, input_precision=PRECISION)
    _store_rows(grad_k + n * n_pos * d, result * scale, keys, n_pos, d, D)
