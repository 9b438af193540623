-- Whether the server sees the lake's folder: it reads the same bytes.
SELECT bytes FROM file({file}, 'RawBLOB', 'bytes String')
