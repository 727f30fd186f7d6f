/* In: snapshots of the service. Out: for each replica, where its time went lately, as shares that add up to 1.
   A share is a difference of the replica's clocks between two snapshots, never the clocks themselves.
   A replica that was restarted is a new process with new clocks, so its history starts again. */

export const ACTIVITIES = ["busy", "starved", "blocked", "transferring", "idle"];
const RECENT_S = 5;
const KEPT = 61; // snapshots: a minute of differences

export class Shares {
  #lives = new Map();

  /* Takes one snapshot. */
  add(status) {
    const seen = new Set();
    for (const replica of status.replicas) {
      const key = keyOf(replica);
      seen.add(key);
      const life = this.#lives.get(key);
      const goesOn = life && life.pid === replica.pid && notBefore(replica.time_s, life.points.at(-1).time_s);
      const points = goesOn ? life.points : [];
      points.push({ at_s: status.uptime_s, time_s: replica.time_s });
      if (points.length > KEPT) points.shift();
      if (!goesOn) this.#lives.set(key, { pid: replica.pid, points });
    }
    for (const key of this.#lives.keys()) if (!seen.has(key)) this.#lives.delete(key);
  }

  /* Shares over the last few seconds, in the order of ACTIVITIES; null until two snapshots have come. */
  recent(replica) {
    const points = this.#lives.get(keyOf(replica))?.points ?? [];
    if (points.length < 2) return null;
    const last = points.at(-1);
    const from = points.find((point) => point.at_s >= last.at_s - RECENT_S - 0.5);
    return difference(from === last ? points.at(-2) : from, last);
  }

  /* Shares of each interval of the last minute, oldest first; null where the clocks stood still. */
  minute(replica) {
    const points = this.#lives.get(keyOf(replica))?.points ?? [];
    return points.slice(1).map((point, index) => difference(points[index], point));
  }
}

const keyOf = (replica) => `${replica.stage}/${replica.replica}`;
const notBefore = (later, earlier) => later.every((value, index) => value >= earlier[index] - 1e-6);

function difference(from, to) {
  const spent = to.time_s.map((value, index) => Math.max(0, value - from.time_s[index]));
  const sum = spent.reduce((total, value) => total + value, 0);
  return sum > 0 ? spent.map((value) => value / sum) : null;
}
