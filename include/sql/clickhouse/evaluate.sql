SELECT {expression}
