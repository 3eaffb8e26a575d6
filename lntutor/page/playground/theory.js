// Mean-field theory: the same walk on streams, sums of independent Gaussian components (lntutor/theory/streams.py and
// mean_field.py, from which the formulas are; matrices are n × n in float64, one network at a time).

const DIGITS = 1e-9 // a difference below this share of its two terms may be mostly round-off

// Matrices

function matrix(n, entry) {
  const A = new Float64Array(n * n)
  for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < n; j++, at++) A[at] = entry(i, j, at)
  return A
}

function times(A, B, n, transposed = false) {
  const C = new Float64Array(n * n)
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < n; k++) {
      const a = transposed ? A[k * n + i] : A[i * n + k]
      if (a !== 0) for (let j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j]
    }
  }
  return C
}

function timesTransposed(A, B, n) {
  const C = new Float64Array(n * n)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0
      for (let k = 0; k < n; k++) sum += A[i * n + k] * B[j * n + k]
      C[i * n + j] = sum
    }
  }
  return C
}

const entrywise = (A, B) => A.map((a, i) => a * B[i])
const diagonal = (A, n) => Float64Array.from({ length: n }, (_, i) => A[i * n + i])
const outer = (a, b = a) => matrix(a.length, (i, j) => a[i] * b[j])
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length

// Eigenvalues and eigenvectors (columns of `vectors`) of a symmetric matrix, by Jacobi's rotations
function eigen(A, n) {
  A = A.slice()
  const vectors = matrix(n, (i, j) => +(i === j))
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0
    let all = 0
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) (all += A[i * n + j] ** 2), i !== j && (off += A[i * n + j] ** 2)
    if (!(off > 1e-32 * all)) break
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotate(A, vectors, n, p, q)
  }
  return { values: diagonal(A, n), vectors }
}

function rotate(A, V, n, p, q) {
  const entry = A[p * n + q]
  if (!entry) return
  const theta = (A[q * n + q] - A[p * n + p]) / (2 * entry)
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1))
  const c = 1 / Math.hypot(t, 1)
  const s = t * c
  const turn = (M, i, j) => {
    const [a, b] = [M[i], M[j]]
    M[i] = c * a - s * b
    M[j] = s * a + c * b
  }
  for (let k = 0; k < n; k++) turn(A, k * n + p, k * n + q)
  for (let k = 0; k < n; k++) turn(A, p * n + k, q * n + k)
  for (let k = 0; k < n; k++) turn(V, k * n + p, k * n + q)
}

// The symmetric R with R R = C
function root(C, n) {
  const { values, vectors } = eigen(C, n)
  const half = matrix(n, (i, j, at) => vectors[at] * Math.sqrt(Math.max(values[j], 0)))
  return timesTransposed(half, vectors, n)
}

// Streams

class NoTheory extends Error {}

class Mixture {
  // Σ a_k u_k: component → coefficients per token; `cov` is the covariance of the sum. A component is { cov, constant }.
  constructor(parts, cov, n) {
    Object.assign(this, { parts, cov, n })
  }

  static fresh(cov, n) {
    return new Mixture(new Map([[{ cov, constant: false }, new Float64Array(n).fill(1)]]), cov, n)
  }

  plus(other) {
    const parts = new Map(this.parts)
    const cov = this.cov.map((c, i) => c + other.cov[i])
    for (const [component, b] of other.parts) {
      const a = parts.get(component)
      if (a) for (let i = 0, at = 0; i < this.n; i++) {
        for (let j = 0; j < this.n; j++, at++) cov[at] += (a[i] * b[j] + b[i] * a[j]) * component.cov[at]
      }
      parts.set(component, a ? a.map((x, i) => x + b[i]) : b)
    }
    return new Mixture(parts, cov, this.n)
  }

  scaled(r) {
    const factor = typeof r === "number" ? new Float64Array(this.n).fill(r) : r
    const parts = new Map([...this.parts].map(([component, a]) => [component, entrywise(a, factor)]))
    return new Mixture(parts, entrywise(this.cov, outer(factor)), this.n)
  }

  // Without the components that are equal over features, which a LayerNorm subtracts
  centred() {
    const constant = [...this.parts].filter(([component]) => component.constant)
    if (!constant.length) return this
    const cov = this.cov.slice()
    for (const [component, a] of constant) {
      for (let i = 0, at = 0; i < this.n; i++) for (let j = 0; j < this.n; j++, at++) cov[at] -= a[i] * a[j] * component.cov[at]
    }
    return new Mixture(new Map([...this.parts].filter(([component]) => !component.constant)), cov, this.n)
  }
}

function correlation(C, n) {
  const size = diagonal(C, n).map((c) => Math.sqrt(Math.max(c, 0))) // x − x leaves round-off of either sign
  return [size, matrix(n, (i, j, at) => Math.min(1, Math.max(-1, C[at] / Math.max(size[i] * size[j], TINY))))]
}

const kappa = (r) => (Math.sqrt(1 - r * r) + r * (Math.PI - Math.acos(r))) / (2 * Math.PI)
const kappaPrime = (r) => (Math.PI - Math.acos(r)) / (2 * Math.PI)

class Streams extends Reading {
  // The placement's rule on streams; `weights(name)` are measured attention weights (heads, n, n).
  constructor(model, weights) {
    super(model)
    Object.assign(this, { weights, tape: [], sites: [], products: new Map(), n: model.tokens })
  }

  made(mixture, inputs = [], pull = null) {
    const y = { mixture, inputs, pull, grad: null }
    this.tape.push(y)
    return y
  }

  input(side, gain) {
    return this.made(Mixture.fresh(matrix(this.n, (i, j) => gain * gain * (i === j)), this.n))
  }

  sum(a, b) {
    return this.made(a.mixture.plus(b.mixture), [a, b], (g) => [g, g])
  }

  scale(x, factor) {
    return this.made(x.mixture.scaled(factor), [x], (g) => [g.scaled(factor)])
  }

  norm(x) {
    const mixture = this.model.norm === "layer" ? x.mixture.centred() : x.mixture
    const r = diagonal(mixture.cov, this.n).map((c) => 1 / Math.sqrt(c + 1e-5))
    return this.made(mixture.scaled(r), [x], (g) => [g.scaled(r)])
  }

  // tanh(σz) = Σ a_k(σ) h_k(z): the linear term keeps the components, the others make a new one
  tanh(x) {
    const [size, rho] = correlation(x.mixture.cov, this.n)
    const { a, tail, slope, slopeTail } = hermite(size)
    const gain = slope.map((row) => row[0])
    const average = a.map((row) => row[0])
    const linear = x.mixture.scaled(Float64Array.from(gain))
    const second = powerSeries(a, tail, rho, this.n)
    const extra = { cov: matrix(this.n, (i, j, at) => second[at] - linear.cov[at] - average[i] * average[j]), constant: false }
    const ones = { cov: new Float64Array(this.n * this.n).fill(1), constant: true }
    const parts = new Map([...linear.parts, [extra, new Float64Array(this.n).fill(1)], [ones, Float64Array.from(average)]])
    const series = powerSeries(slope, slopeTail, rho, this.n)
    const rest = matrix(this.n, (i, j, at) => series[at] - gain[i] * gain[j])
    const pull = (g) => [g.scaled(Float64Array.from(gain)).plus(Mixture.fresh(entrywise(rest, g.cov), this.n))]
    return this.made(new Mixture(parts, second, this.n), [x], pull)
  }

  linear(x, block, parameter) {
    const name = [this.here.side, this.here.layer, block, parameter].join()
    if (this.products.has(name)) throw new NoTheory(`The theory reads each sub-layer once per layer; this rule calls ${block} again`)
    const fanIn = shapeOf(this.model, parameter)[0]
    const v = fanIn * this.deviation(parameter) ** 2
    const fresh = (mixture) => Mixture.fresh(mixture.cov.map((c) => v * c), this.n)
    const y = this.made(fresh(x.mixture), [x], (g) => [fresh(g)])
    this.products.set(name, { x, y, fanIn })
    return y
  }

  // C → √(C_ii C_jj) κ(ρ), with the mean over features as a component of its own; back G → κ′(ρ)∘G
  relu(x) {
    const [size, rho] = correlation(x.mixture.cov, this.n)
    const average = size.map((s) => s / Math.sqrt(2 * Math.PI))
    const second = matrix(this.n, (i, j, at) => size[i] * size[j] * kappa(rho[at]))
    const rest = { cov: matrix(this.n, (i, j, at) => second[at] - average[i] * average[j]), constant: false }
    const ones = { cov: new Float64Array(this.n * this.n).fill(1), constant: true }
    const parts = new Map([[rest, new Float64Array(this.n).fill(1)], [ones, average]])
    const open = rho.map(kappaPrime)
    return this.made(new Mixture(parts, second, this.n), [x], (g) => [Mixture.fresh(entrywise(open, g.cov), this.n)])
  }

  ffn(x) {
    return this.linear(this.tap("hidden", this.relu(this.linear(x, "ffn", "W_1"))), "ffn", "W_2")
  }

  attention(x, block) {
    const keys = block === "self" ? x : this.here.memory
    let mixed
    if (this.model.attention === "softmax") {
      const [q, k, v] = [..."QKV"].map((letter) =>
        this.tap(letter.toLowerCase(), this.linear(letter === "Q" ? x : keys, block, `W_${letter}`)),
      )
      mixed = this.mixed(v, this.weights([this.here.side, this.here.layer, block].join()), q, k)
    } else {
      const causal = block === "self" && this.here.side === "decoder"
      const equal = matrix(this.n, (i, j) => (causal ? (j <= i) / (i + 1) : 1 / this.n))
      mixed = this.mixed(this.tap("v", this.linear(keys, block, "W_V")), equal)
    }
    const heads = this.tap("heads", mixed)
    return this.model.output_projection ? this.linear(heads, block, "W_O") : heads
  }

  // Σ_j P_ij v_j, the mean over heads; gradients pass back to v, and by the scores to q and k
  mixed(v, weights, q = null, k = null) {
    const n = this.n
    const heads = Array.from({ length: weights.length / (n * n) }, (_, h) => weights.subarray(h * n * n, (h + 1) * n * n))
    const average = (each) => Mixture.fresh(averageOf(heads.map(each)), n)
    const values = (g) => average((P) => times(P, times(g.cov, P, n), n, true))
    const y = average((P) => timesTransposed(times(P, v.mixture.cov, n), P, n))
    if (!q) return this.made(y, [v], (g) => [values(g)])
    const [Cq, Ck, Cv] = [q, k, v].map((x) => x.mixture.cov)
    return this.made(y, [v, q, k], (g) => {
      const found = throughScores(heads, g.cov, Cq, Ck, Cv, n)
      return [values(g), ...found.map((cov) => Mixture.fresh(cov, n))]
    })
  }

  variance(x) {
    return mean(diagonal(x.mixture.cov, this.n))
  }

  cosine({ mixture: { cov } }) {
    const { n } = this
    const size = diagonal(cov, n).map(Math.sqrt)
    const all = cov.reduce((sum, c, at) => sum + c / (size[Math.floor(at / n)] * size[at % n]), 0)
    return (all - n) / (n * (n - 1))
  }

  site(name, x) {
    const { side, layer } = this.here
    this.sites.push({ side, layer, site: name, value: this.variance(x), cosine: this.cosine(x) })
  }

  async back(out, G, breathe) {
    out.grad = Mixture.fresh(G, this.n)
    for (let i = this.tape.length - 1; i >= 0; i--) {
      const y = this.tape[i]
      if (!y.grad || !y.pull) continue
      const passed = y.pull(y.grad)
      y.inputs.forEach((x, which) => (x.grad = x.grad ? x.grad.plus(passed[which]) : passed[which]))
      if (i % 32 === 0) await breathe()
    }
  }

  // E‖∂L/∂W‖² = fan_in Σ C_ij G_ij
  square(name) {
    const found = this.products.get(name.join())
    if (!found?.y.grad) return 0
    const C = found.x.mixture.cov
    const sum = found.y.grad.cov.reduce((total, g, i) => total + g * C[i], 0)
    return Math.max(0, found.fanIn * sum)
  }
}

function averageOf(matrices) {
  const sum = matrices[0].slice()
  for (const A of matrices.slice(1)) A.forEach((a, i) => (sum[i] += a))
  return sum.map((s) => s / matrices.length)
}

// Gram matrices of the gradients at q and k, for gradients G at the heads' outputs
function throughScores(heads, G, Cq, Ck, Cv, n) {
  let found = heads.map((P) => scoresBySums(P, G, Cq, Ck, Cv, n))
  if (!(Math.min(...found.map(({ left }) => left)) >= DIGITS)) {
    const [K, V, L] = [centre(Ck, n), centre(Cv, n), entrywise(G, Cq)].map((C) => root(C, n))
    found = heads.map((P) => scoresByRoots(P, G, V, K, L, n))
  }
  return [averageOf(found.map(({ toQ }) => toQ)), averageOf(found.map(({ toK }) => toK))]
}

function scoresBySums(P, G, Cq, Ck, Cv, n) {
  const a = times(P, Cv, n)
  const b = times(P, Ck, n)
  const e = timesTransposed(a, P, n)
  const bP = timesTransposed(b, P, n)
  const all = timesTransposed(times(P, entrywise(Cv, Ck), n), P, n)
  let half = timesTransposed(entrywise(a, b), P, n)
  const q = difference(matrix(n, (i, j, at) => all[at] + e[at] * bP[at]), half, n)
  const B = entrywise(G, Cq)
  const BP = times(B, P, n)
  half = times(P, entrywise(a, BP), n, true)
  const inner = times(P, BP, n, true)
  const outerPart = times(P, times(entrywise(B, e), P, n), n, true)
  const k = difference(matrix(n, (i, j, at) => Cv[at] * inner[at] + outerPart[at]), half, n)
  return { toQ: entrywise(G, q.result), toK: k.result, left: Math.min(q.left, k.left) }
}

// a − (half + halfᵀ), and the least share of its terms that is left on the diagonal
function difference(a, half, n) {
  const b = matrix(n, (i, j, at) => half[at] + half[j * n + i])
  const result = a.map((x, at) => x - b[at])
  let left = 1
  for (let i = 0; i < n * n; i += n + 1) {
    const size = a[i] + b[i]
    const share = Math.abs(result[i]) / (size > 0 ? size : 1)
    if (share > 0) left = Math.min(left, share)
    if (Number.isNaN(share)) left = NaN
  }
  return { result, left }
}

// The same as products of a matrix with itself, which cannot be negative; slower
function scoresByRoots(P, G, V, K, L, n) {
  const PV = times(P, V, n)
  const U = [] // U_i = Kᵀ W_i with W_i = diag p_i (V − 1 p_i V)
  const W = []
  for (let i = 0; i < n; i++) {
    W.push(matrix(n, (m, r, at) => P[i * n + m] * (V[at] - PV[i * n + r])))
    U.push(times(K, W[i], n, true))
  }
  const toQ = matrix(n, (i, j, at) => G[at] * U[i].reduce((sum, u, r) => sum + u * U[j][r], 0))
  const toK = new Float64Array(n * n)
  for (let c = 0; c < n; c++) {
    const S = new Float64Array(n * n)
    for (let i = 0; i < n; i++) {
      const l = L[i * n + c]
      if (l !== 0) for (let at = 0; at < n * n; at++) S[at] += l * W[i][at]
    }
    timesTransposed(S, S, n).forEach((s, at) => (toK[at] += s))
  }
  return { toQ, toK }
}

// C without the part that all tokens have in common, which does not change a softmax
function centre(C, n) {
  const rows = Float64Array.from({ length: n }, (_, i) => mean(C.subarray(i * n, (i + 1) * n)))
  const all = mean(rows)
  return matrix(n, (i, j, at) => C[at] - rows[i] - rows[j] + all)
}

// Coefficients of tanh(σz) in normalised Hermite polynomials for each σ, and of its slope; `tail`: the size of the rest
const TERMS = 41
const POINTS = Array.from({ length: 181 }, (_, i) => (i - 90) / 10)
const WEIGHTED = (() => {
  const basis = [POINTS.map(() => 1), POINTS]
  for (let k = 1; k < TERMS - 1; k++) {
    basis.push(POINTS.map((z, i) => (z * basis[k][i] - Math.sqrt(k) * basis[k - 1][i]) / Math.sqrt(k + 1)))
  }
  return basis.map((row) => row.map((h, i) => (h * Math.exp((-POINTS[i] * POINTS[i]) / 2)) / Math.sqrt(2 * Math.PI) / 10))
})()

function hermite(sizes) {
  const expand = (f, count) => {
    const values = POINTS.map(f)
    const dot = (weights) => values.reduce((sum, y, i) => sum + y * weights[i], 0)
    const coefficients = WEIGHTED.slice(0, count).map(dot)
    const square = values.reduce((sum, y, i) => sum + y * y * WEIGHTED[0][i], 0)
    return [coefficients, Math.sqrt(Math.max(0, square - coefficients.reduce((sum, a) => sum + a * a, 0)))]
  }
  const found = { a: [], tail: [], slope: [], slopeTail: [] }
  for (const given of sizes) {
    const size = Math.max(given, 1e-6)
    const [a, tail] = expand((z) => Math.tanh(size * z), TERMS)
    const [slope, slopeTail] = expand((z) => 1 - Math.tanh(size * z) ** 2, TERMS - 1)
    for (const [name, value] of Object.entries({ a, tail, slope, slopeTail })) found[name].push(value)
  }
  return found
}

// Σ_k a_k[i] a_k[j] ρ[i, j]^k, plus one more term of size `tail` for all that follow
function powerSeries(a, tail, rho, n) {
  return matrix(n, (i, j, at) => {
    let [sum, power] = [0, 1]
    for (let k = 0; k < a[i].length; k++, power *= rho[at]) sum += a[i][k] * a[j][k] * power
    return sum + tail[i] * tail[j] * power
  })
}

// The loss's gradient at the output: E (p_i − e_i)·(p_j − e_j)/n², for a head N(0, 1/d)
function lossGram(C, n, doubles) {
  const overlap = Math.max(...C) < 3 ? C.map((c) => Math.exp(c) / WORDS) : sampledOverlap(C, n, doubles)
  return matrix(n, (i, j, at) => ((i === j) - 2 / WORDS + overlap[at]) / n ** 2)
}

// E p_i·p_j for softmax over Gaussian logits with this covariance, from 16 draws
function sampledOverlap(C, n, doubles, draws = 16) {
  if (!C.every(Number.isFinite)) return C.map(() => NaN)
  const half = root(C, n)
  const normals = doubles(draws * n * WORDS)
  const sum = new Float64Array(n * n)
  for (let draw = 0; draw < draws; draw++) {
    const p = Array.from({ length: n }, (_, i) => softmaxOf(half.subarray(i * n, (i + 1) * n), normals, draw * n * WORDS))
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) {
      const product = p[i].reduce((total, value, word) => total + value * p[j][word], 0)
      sum[i * n + j] += product
      if (j < i) sum[j * n + i] += product
    }
  }
  return sum.map((s) => s / draws)
}

function softmaxOf(row, normals, start) {
  const z = new Float64Array(WORDS)
  row.forEach((r, j) => {
    for (let word = 0, at = start + j * WORDS; word < WORDS; word++, at++) z[word] += r * normals[at]
  })
  const most = z.reduce((a, b) => Math.max(a, b))
  const p = z.map((value) => Math.exp(value - most))
  const total = p.reduce((a, b) => a + b, 0)
  return p.map((value) => value / total)
}
