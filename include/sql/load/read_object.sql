-- Whether the named collection leads to the lake's bucket: it reads the same bytes.
SELECT bytes FROM s3({collection}, filename = {object}, format = 'RawBLOB', structure = 'bytes String')
