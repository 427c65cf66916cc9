// SPDX-License-Identifier: Apache-2.0
// Browsers give no workers to pages that are opened as files. There, what the site runs in a worker (its search) runs in a
// hidden frame, with the messages of a worker. On a server this does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];
    #isReady = false;
    onmessage = null;
    onmessageerror = null;
    onerror = null;

    constructor(url) {
      super();
      const script = document.createElement("script");
      script.src = new URL(url, location.href);
      script.onerror = (event) => this.onerror?.(event);
      script.onload = () => {
        this.#isReady = true;
        this.#waiting.splice(0).forEach((data) => this.#deliver(data));
      };
      this.#frame.hidden = true;
      this.#frame.srcdoc = "<!doctype html><title>worker</title>";
      this.#frame.onload = () => {
        this.#frame.contentWindow.postMessage = (data) => {
          const event = new MessageEvent("message", { data });
          this.onmessage?.(event);
          this.dispatchEvent(event);
        };
        this.#frame.contentDocument.head.append(script);
      };
      document.documentElement.append(this.#frame);
    }

    postMessage(data) {
      if (this.#isReady) {
        this.#deliver(data);
      } else {
        this.#waiting.push(data);
      }
    }

    terminate() {
      this.#frame.remove();
    }

    #deliver(data) {
      setTimeout(() => this.#frame.contentWindow?.onmessage?.(new MessageEvent("message", { data })));
    }
  };
}
