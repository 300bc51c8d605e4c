// Search in pages that were opened as files. A browser starts no worker from a file, so the
// worker's script runs in a hidden frame. Served pages use the browser's own worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script src="${url}"></script>`;
      this.loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      this.loaded.then(() => {
        this.frame.contentWindow.postMessage = (data) =>
          this.dispatchEvent(new MessageEvent("message", { data }));
      });
      document.body.appendChild(this.frame);
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }
  };
}
