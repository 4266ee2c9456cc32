"""The web console in a real Chromium. A package, so that the browser is closed before other tests go on."""
