// Server-sent events, of a stream that a POST answers: the browser's EventSource can only GET.

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** Takes pieces of a stream in any cut, and gives the events that are whole (WHATWG HTML, 9.2). */
export class ServerEvents {
  #rest = "";
  #event = "";
  #data: string[] = [];

  take(piece: string): ServerEvent[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line.replace(/\r$/, "")));
  }

  #line(line: string): ServerEvent[] {
    if (line === "") {
      const whole = this.#data.length > 0;
      const made = { event: this.#event || "message", data: this.#data.join("\n") };
      this.#event = "";
      this.#data = [];
      return whole ? [made] : [];
    }
    const [field = "", value = ""] = splitOnce(line, ":");
    const text = value.replace(/^ /, "");
    if (field === "event") this.#event = text;
    else if (field === "data") this.#data.push(text);
    return [];
  }
}

function splitOnce(text: string, by: string): string[] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}
