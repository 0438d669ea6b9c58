// The totals of the last minutes, and what follows from them. The daemon keeps no history: it gives counts since its start.

export const MINUTES = 5;
const WINDOW_US = MINUTES * 60e6;
// Percentiles need more than the few requests between two samples.
const SPAN_US = 10e6;

// What a histogram's counts grew by says where the share of observations lies; undefined: nothing grew. even: observations
// are taken to lie evenly between two bounds; else the upper one is given. Past the last bound that bound is what is known.
export function percentile(share, bounds, grown, even) {
  const all = grown.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  let left = share * all;
  for (let i = 0; i < bounds.length; i++) {
    const below = i === 0 ? 0 : bounds[i - 1];
    if (grown[i] > 0 && left <= grown[i]) return !even ? bounds[i] : below + ((bounds[i] - below) * left) / grown[i];
    left -= grown[i];
  }
  return bounds[bounds.length - 1];
}

export class History {
  samples = [];

  // Totals that are smaller than before, or older, are another daemon's: what was known is forgotten.
  add(totals) {
    const last = this.samples[this.samples.length - 1];
    if (last && (totals.time_us <= last.time_us || totals.images < last.images || totals.answers["2xx"] < last.answers["2xx"])) this.samples = [];
    this.samples.push(totals);
    // One more than is shown: rates need the sample before.
    while (this.samples.length > 2 && this.samples[1].time_us < totals.time_us - WINDOW_US) this.samples.shift();
  }

  get last() {
    return this.samples[this.samples.length - 1];
  }

  // [{at, value}]: at is 0 at the left end of the window and 1 now. value(sample, before) may be undefined: a gap.
  curve(value, spanUs = 0) {
    const points = [];
    for (let i = 1, from = 0; i < this.samples.length; i++) {
      const sample = this.samples[i];
      while (from < i - 1 && this.samples[from + 1].time_us <= sample.time_us - spanUs) from++;
      points.push({ at: 1 - (this.last.time_us - sample.time_us) / WINDOW_US, value: value(sample, this.samples[from]) });
    }
    return points;
  }

  // A second's growth of a count.
  rate(count) {
    return this.curve((sample, before) => ((count(sample) - count(before)) * 1e6) / (sample.time_us - before.time_us));
  }

  // Of a histogram, totals[name].
  percentiles(share, name, even = true) {
    return this.curve((sample, before) => {
      const { bounds, counts } = sample[name];
      return percentile(share, bounds, counts.map((count, i) => count - before[name].counts[i]), even);
    }, SPAN_US);
  }

  // What one count grew by for each one of another.
  ratio(of, to) {
    return this.curve((sample, before) => {
      const grown = to(sample) - to(before);
      return grown === 0 ? undefined : (of(sample) - of(before)) / grown;
    }, SPAN_US);
  }
}
