/* In: base64 chunks of 16-bit little-endian mono samples, as they arrive. Out: sound, without gaps.
   Invariant: each chunk starts exactly where the one before it ends, unless it arrived too late for that. */

const RATE_HZ = 24000; // what the API's `pcm16` means
const LEAD_S = 0.05;

export class Player {
  #context = null;
  #next = 0;
  #sources = new Set();
  #odd = new Uint8Array(0);
  #onSilent;
  scheduled_s = 0;
  gaps = 0;

  /* `onSilent` is called when the last scheduled chunk has been heard. */
  constructor(onSilent) {
    this.#onSilent = onSilent;
  }

  /* Call it in a click or key press: browsers let no page make a sound uninvited. */
  open() {
    this.stop();
    this.#context ??= new AudioContext({ sampleRate: RATE_HZ });
    this.#context.resume().catch((error) => error); // not allowed to sound: the text still shows
    Object.assign(this, { scheduled_s: 0, gaps: 0 });
    this.#next = 0;
    this.#odd = new Uint8Array(0);
  }

  get playing() {
    return this.#sources.size > 0;
  }

  push(base64) {
    const samples = this.#samples(base64);
    if (!samples.length) return;
    const buffer = this.#context.createBuffer(1, samples.length, RATE_HZ);
    buffer.copyToChannel(samples, 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#context.destination);
    const now = this.#context.currentTime;
    if (this.#next < now) {
      if (this.#next) this.gaps += 1;
      this.#next = now + LEAD_S;
    }
    source.start(this.#next);
    this.#next += buffer.duration;
    this.scheduled_s += buffer.duration;
    this.#sources.add(source);
    source.onended = () => {
      this.#sources.delete(source);
      if (!this.playing) this.#onSilent();
    };
  }

  stop() {
    for (const source of this.#sources) {
      source.onended = null;
      source.stop();
    }
    this.#sources.clear();
  }

  /* A chunk may end in the middle of a sample; its last byte waits for the next one. */
  #samples(base64) {
    const text = atob(base64);
    const raw = new Uint8Array(this.#odd.length + text.length);
    raw.set(this.#odd);
    for (let at = 0; at < text.length; at += 1) raw[this.#odd.length + at] = text.charCodeAt(at);
    const even = raw.length - (raw.length % 2);
    this.#odd = raw.slice(even);
    const view = new DataView(raw.buffer, 0, even);
    return Float32Array.from({ length: even / 2 }, (_, at) => view.getInt16(2 * at, true) / 32768);
  }
}
