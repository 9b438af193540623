-- Whether a pattern is anywhere in a text. `pattern` is a string as the server itself has written it.
SELECT match({text:String}, {pattern})
