-- A mutation whose fence is gone is retried for ever; its text names the fence that it reads.
KILL MUTATION WHERE NOT is_done AND position(command, {fences:String}) > 0
