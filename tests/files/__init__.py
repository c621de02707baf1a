"""What exporters and quantisers write, tried: the page docs/files.md."""
