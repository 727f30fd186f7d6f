/* In: presses of the record button. Out: one WAV file for each recording.
   The button only shows where the browser lets a page listen: on localhost or over HTTPS, with MediaRecorder.
   Invariant: the microphone is let go as soon as a recording ends. */

import { toWav } from "./wav.js";

const LONGEST_S = 120;

export function startRecorder(button, { onFile, onError }) {
  if (!navigator.mediaDevices?.getUserMedia || !window.MediaRecorder) return;
  button.hidden = false;
  let recorder = null;
  let clock = 0;

  async function record() {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = ({ data }) => pieces.push(data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      show(false);
      finish(new Blob(pieces)).catch((error) => onError(`The recording can't be read: ${error.message}`));
      recorder = null;
    };
    recorder.start();
    show(true);
  }

  async function finish(blob) {
    const { blob: wav } = await toWav(blob);
    onFile(new File([wav], "recording.wav", { type: "audio/wav" }));
  }

  function show(on) {
    clearInterval(clock);
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Stop recording (0 s)" : "Record";
    if (!on) return;
    const since = Date.now();
    clock = setInterval(() => {
      const spent = Math.floor((Date.now() - since) / 1000);
      button.textContent = `Stop recording (${spent} s)`;
      if (spent >= LONGEST_S) recorder?.stop();
    }, 500);
  }

  button.addEventListener("click", () => {
    if (recorder) recorder.stop();
    else record().catch((error) => onError(`The microphone can't be used: ${error.message}`));
  });
}
