/*
 * Web workers for pages that are opened from a disk (file://), where browsers refuse them: the
 * script of the worker runs in a hidden frame. The search of the site needs no more than this.
 * The theme looks for the name IFrameWorker, and waits for importScripts, which loads later here.
 */
(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.emit(data);
      inside.importScripts = async (...addresses) => {
        for (const each of addresses) await this.load(each);
      };
      this.inside = inside;
      this.load(address).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.deliver(data));
      });
    }

    load(address) {
      return new Promise((loaded, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = new URL(address, document.baseURI).href;
        script.onload = loaded;
        script.onerror = () => failed(new Error(`cannot load ${address}`));
        this.inside.document.head.append(script);
      });
    }

    postMessage(data) {
      if (this.ready) this.deliver(data);
      else this.waiting.push(data);
    }

    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    emit(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
