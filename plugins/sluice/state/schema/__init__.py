"""Changes of the fields that events have, from one slice to the next, out of the manifests alone."""
