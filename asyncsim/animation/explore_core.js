// The numbers of the explorable: plain functions, whose results tests compare with those of Python.
"use strict";

// Random numbers

function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const normal = (next) => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
const exponential = (next) => -Math.log(1 - next());

// A gamma variable of mean 1, by Marsaglia and Tsang 2000.
function gammaOfMeanOne(cv, next) {
  if (cv === 0) return 1;
  const shape = 1 / (cv * cv), d = (shape < 1 ? shape + 1 : shape) - 1 / 3, c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = normal(next), v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - next()) < x * x / 2 + d - d * v + d * Math.log(v)) {
      return d * v / shape * (shape < 1 ? (1 - next()) ** (1 / shape) : 1);
    }
  }
}

// The j-th draw of worker w, the same for every protocol.
function draws(seed, sample) {
  const workers = new Map();
  return (w, j) => {
    if (!workers.has(w)) workers.set(w, { next: generator(seed * 7919 + w * 104729 + 1), samples: [] });
    const { next, samples } = workers.get(w);
    while (samples.length <= j) samples.push(sample(next));
    return samples[j];
  };
}

// The schedule

// Workers that compute, one server that applies commits first in, first out, and steps of `collect` gradients, for whose
// end contributors wait. `compute(w, j)` and `service(w, j)` are seconds of the j-th job of worker w. It ends with the
// first step by which there are `commits` commits and `seconds` have passed.
function schedule(workers, collect, compute, service, commits, seconds = 0) {
  const log = { worker: [], read: [], version: [], time: [], closes: [] };
  const finish = [], read = Array(workers).fill(0), jobs = Array(workers).fill(0), served = Array(workers).fill(0);
  const queue = [];
  let version = 0, waiting = [], free = 0, head = 0;
  for (let w = 0; w < workers; w++) finish.push(compute(w, jobs[w]++));
  for (;;) {
    let first = 0;
    for (let w = 1; w < workers; w++) if (finish[w] < finish[first]) first = w;
    if (head < queue.length && queue[head].end <= finish[first]) {
      const { worker, end } = queue[head++];
      waiting.push(worker);
      const closes = waiting.length === collect;
      log.worker.push(worker);
      log.read.push(read[worker]);
      log.version.push(version);
      log.time.push(end);
      log.closes.push(closes);
      if (!closes) continue;
      version++;
      for (const w of waiting) {
        read[w] = version;
        finish[w] = end + compute(w, jobs[w]++);
      }
      waiting = [];
      if (log.time.length >= commits && end >= seconds) return log;
    } else {
      free = Math.max(free, finish[first]) + service(first, served[first]++);
      queue.push({ worker: first, end: free });
      finish[first] = Infinity;
    }
  }
}

const staleness = (log) => log.version.map((version, i) => version - log.read[i]);

// The share of commits of each staleness after the start, and its mean.
function histogram(log, skip) {
  const counts = [], all = staleness(log), from = Math.min(skip, all.length >> 1);
  let sum = 0;
  for (let i = from; i < all.length; i++) {
    counts[all[i]] = (counts[all[i]] || 0) + 1;
    sum += all[i];
  }
  const size = all.length - from;
  return { shares: Array.from(counts, (count) => (count || 0) / size), mean: sum / size };
}

// The replay

const MOMENTUM = 0.9, LEAST = 1e-12, MOST_SCALING = 5;

// The parameters and the workers before the first commit. `rule` is "downpour" or "gem" (the variant "script").
function startReplay(workers, rule, start) {
  const copies = () => Array.from({ length: workers }, () => Float64Array.from(start));
  const gem = rule === "gem";
  return { theta: Float64Array.from(start), sum: new Float64Array(start.length), members: [], read: copies(),
    pulled: gem ? copies() : [], moment: gem ? Array.from({ length: workers }, () => new Float64Array(start.length)) : [] };
}

// One commit: `slope(x, i, commit)` is coordinate i of the gradient at x.
function commitOne(state, worker, closes, eta, slope, commit) {
  const { theta, sum, members } = state, read = state.read[worker], moment = state.moment[worker];
  const pulled = state.pulled[worker];
  for (let i = 0; i < theta.length; i++) {
    const update = -eta * slope(read, i, commit);
    let scale = 1;
    if (moment) {
      moment[i] = MOMENTUM * moment[i] + update;
      const ratio = (Math.abs(moment[i]) - Math.abs(theta[i] - pulled[i])) / Math.abs(update + LEAST);
      scale = Math.min(Math.max(ratio, 0), MOST_SCALING);
      pulled[i] = theta[i];
    }
    sum[i] += scale * update;
  }
  members.push(worker);
  if (!closes) return;
  for (let i = 0; i < theta.length; i++) {
    theta[i] += sum[i] / members.length;
    sum[i] = 0;
  }
  for (const w of members) state.read[w].set(theta);
  members.length = 0;
}

// Replay a schedule; `each(theta, i)` is called after each step, and ends the replay by returning true.
function replay(log, workers, rule, eta, slope, start, each) {
  const state = startReplay(workers, rule, start);
  for (let i = 0; i < log.worker.length; i++) {
    commitOne(state, log.worker[i], log.closes[i], eta, slope, i);
    if (log.closes[i] && each(state.theta, i)) break;
  }
  return state.theta;
}

// Stability

const AGAIN = 32;  // commits after which the state is scaled to size 1, which changes no ratio

// The growth of log |x| in a commit on the quadratic with h = 1 over the second half of a schedule.
function growth(log, workers, rule, kappa) {
  const state = startReplay(workers, rule, [1]), slope = (x) => x[0], half = log.worker.length >> 1;
  const parts = [state.theta, state.sum, ...state.read, ...state.moment, ...state.pulled];
  let total = 0, before = 0, at = 0;
  for (let i = 0; i < log.worker.length; i++) {
    commitOne(state, log.worker[i], log.closes[i], kappa, slope, i);
    if ((i + 1) % AGAIN && i + 1 < log.worker.length) continue;
    let size = 1e-280;
    for (const values of state.read) size = Math.max(size, Math.abs(values[0]));
    size = Math.max(size, Math.abs(state.theta[0]));
    for (const values of parts) values[0] /= size;
    total += Math.log(size);
    if (i < half) [before, at] = [total, i];
  }
  return (total - before) / (log.worker.length - 1 - at);
}

// The least step size at which a schedule makes x grow, by a coarse search upwards and bisection.
function scheduleLimit(log, workers, rule) {
  let low = 0.005, high = low;
  while (high < 8 && growth(log, workers, rule, high) < 0) [low, high] = [high, high * 1.3];
  if (high === low || high >= 8) return high;
  for (let i = 0; i < 8; i++) {
    const middle = Math.sqrt(low * high);
    if (growth(log, workers, rule, middle) < 0) low = middle; else high = middle;
  }
  return Math.sqrt(low * high);
}

// Theory

const constantLimit = (n) => 2 * Math.sin(Math.PI / (2 * (2 * n - 1)));
const exponentialLimit = (n) => (1 + Math.sqrt(1 + 8 * n)) / (2 * n);

function kAsyncLimit(n, k) {
  const e = k < n ? 2 * n * (n - k) / (k * (2 * n - k - 1)) : 0, b = 2 * e * k - 2 * n + k, root = Math.sqrt(b * b + 8 * k * e);
  return b > 0 ? (b + root) / (2 * e) : 4 * k / (root - b);
}

// The limit of asynchronous SGD with gamma times. Exact for cv = 0 (round robin) and cv = 1 (exponential times, in mean
// square). In between, the mean with a gamma kernel of staleness is stable below tan(a) / cv² / cos(a)^(1 / cv²) / delay,
// a = π cv² / 2, and the variance below the limit for cv = 1: 1 / limit² adds both, the second weighted by min(1, 4 cv⁴).
function stabilityLimit(n, cv) {
  const square = cv * cv, angle = Math.PI * square / 2;
  if (n === 1) return 2;
  if (cv === 0) return constantLimit(n);
  if (cv >= 1) return exponentialLimit(n);
  const mean = constantLimit(n) * Math.tan(angle) / square / Math.cos(angle) ** (1 / square) / (Math.PI / 2);
  return 1 / Math.sqrt(mean ** -2 + Math.min(1, 4 * square * square) * exponentialLimit(n) ** -2);
}

const knee = (rate) => 1 + rate;

// Commits per second of n workers with mean compute time 1 and one exponential server.
function throughput(n, rate) {
  if (rate === Infinity) return n;
  let term = 1, sum = 1;
  for (let k = 1; k <= n; k++) {
    term *= rate / k;  // P(n - k at the server), up to a factor: counted from a full server, since no term overflows
    sum += term;
  }
  return rate * (1 - term / sum);
}

function logGamma(x) {
  const c = [676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7];
  const t = x + 6.5;
  const sum = c.reduce((total, value, i) => total + value / (x + i), 0.9999999999998099);
  return Math.log(Math.sqrt(2 * Math.PI) * sum) + (x - 0.5) * Math.log(t) - t;
}

// The regularised lower incomplete gamma function.
function gammaCdf(a, x) {
  if (x <= 0) return 0;
  const front = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a, sum = term;
    for (let k = 1; k < 2000 && term > sum * 1e-13; k++) sum += term *= x / (a + k);
    return front * sum;
  }
  let b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (let k = 1; k < 2000; k++) {
    b += 2;
    d = 1 / (-k * (k - a) * d + b);
    c = b - k * (k - a) / c;
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-13) break;
  }
  return 1 - front * h;
}

const NODES = 160;  // of the integral over the worker's own compute time

// P(staleness = k) of asynchronous workers with gamma times: given its compute time x, a worker finds the sum of the n - 1
// others' counts of commits, each an equilibrium renewal count in x.
function stalenessPmf(n, cv, size) {
  const pmf = Array(size).fill(0);
  if (n === 1 || cv === 0) {
    if (n - 1 < size) pmf[n - 1] = 1;
    return pmf;
  }
  const shape = 1 / (cv * cv), longest = 1 + cv * (9 + 9 * cv), length = Math.max(64, 2 * size), half = length / 2;
  const real = new Float64Array(half + 1), imaginary = new Float64Array(half + 1);
  const area = (j, x) => (j ? x * gammaCdf(j * shape, x * shape) - j * gammaCdf(j * shape + 1, x * shape) : x);
  const edge = (i) => Math.max(1 - cv * 9, 0) + (longest - Math.max(1 - cv * 9, 0)) * (i / NODES) ** 2;
  let below = gammaCdf(shape, edge(0) * shape);
  for (let i = 0; i < NODES; i++) {
    const x = (edge(i) + edge(i + 1)) / 2, above = gammaCdf(shape, edge(i + 1) * shape), weight = above - below;
    below = above;
    if (weight < 1e-9) continue;
    const counts = [];
    let least = 1, now = area(0, x);
    for (let k = 1; least > 1e-10 && k < 200; k++) {
      const next = area(k, x), more = Math.max(now - next, 0);
      counts.push(least - more);
      [least, now] = [more, next];
    }
    for (let f = 0; f <= half; f++) {
      let a = 0, b = 0;
      const turn = 2 * Math.PI * f / length, c = Math.cos(turn), s = -Math.sin(turn);
      for (let k = counts.length - 1; k >= 0; k--) [a, b] = [a * c - b * s + counts[k], a * s + b * c];
      const modulus = weight * (a * a + b * b) ** ((n - 1) / 2), angle = (n - 1) * Math.atan2(b, a);
      real[f] += modulus * Math.cos(angle);
      imaginary[f] += modulus * Math.sin(angle);
    }
  }
  for (let k = 0; k < size; k++) {
    let sum = real[0] + real[half] * (k % 2 ? -1 : 1);
    for (let f = 1; f < half; f++) {
      const turn = 2 * Math.PI * f * k / length;
      sum += 2 * (real[f] * Math.cos(turn) - imaginary[f] * Math.sin(turn));
    }
    pmf[k] = Math.max(sum / length, 0);
  }
  return pmf;
}
