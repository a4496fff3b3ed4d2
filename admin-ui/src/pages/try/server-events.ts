// Server-sent events of a stream that a POST answers: the browser's EventSource can only GET.

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** Takes a stream in pieces of any size, and gives the events that are whole (WHATWG HTML, 9.2). */
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
      const made = { event: this.#event || "message", data: this.#data.join("\n") };
      const whole = this.#data.length > 0;
      this.#event = "";
      this.#data = [];
      return whole ? [made] : [];
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    return [];
  }
}
