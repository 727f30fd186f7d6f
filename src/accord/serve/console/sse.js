/* In: a fetch response whose body is text/event-stream. Out: the data of each event, as strings, in order.
   fetch and not EventSource: both streams of the page may need an Authorization header, one is a POST. */

export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the stream is over or aborted; either way nobody reads it any more
  }
}

/* An error answer of the API as one sentence: its JSON error if it has one, else the HTTP status. */
export async function errorOf(response) {
  const text = await response.text();
  let said = text.trim().slice(0, 300) || response.statusText;
  try {
    said = JSON.parse(text).error?.message ?? said;
  } catch {
    // Not JSON: a proxy in between answered, and its text is all there is to show.
  }
  const wait = response.headers.get("retry-after");
  return `${said} (HTTP ${response.status}${wait ? `, try again in ${wait} s` : ""})`;
}
