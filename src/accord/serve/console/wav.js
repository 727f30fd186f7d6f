/* In: any sound that the browser can decode. Out: a WAV file, 16 kHz, 16-bit, mono.
   The service reads WAV, FLAC, OGG and MP3; what a browser records is none of these. */

const RATE_HZ = 16000; // what speech recognizers listen at; more would only be sent to be thrown away
const HEADER_BYTES = 44;

/* Returns {blob, duration_s}; throws if the browser can't decode the sound. */
export async function toWav(blob) {
  const decoder = new OfflineAudioContext(1, 1, RATE_HZ); // decodes to its own rate
  const sound = await decoder.decodeAudioData(await blob.arrayBuffer());
  return { blob: new Blob([encode(mono(sound))], { type: "audio/wav" }), duration_s: sound.duration };
}

function mono(sound) {
  const mixed = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel += 1) {
    sound.getChannelData(channel).forEach((sample, at) => {
      mixed[at] += sample / sound.numberOfChannels;
    });
  }
  return mixed;
}

function encode(samples) {
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + 2 * samples.length));
  const word = (at, text) => [...text].forEach((sign, index) => view.setUint8(at + index, sign.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + 2 * samples.length, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // length of this part of the header
  view.setUint16(20, 1, true); // plain PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, RATE_HZ, true);
  view.setUint32(28, 2 * RATE_HZ, true); // bytes a second
  view.setUint16(32, 2, true); // bytes a sample
  view.setUint16(34, 16, true); // bits a sample
  word(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, at) => {
    view.setInt16(HEADER_BYTES + 2 * at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
  });
  return view.buffer;
}
