-- A mutation whose fence is gone is retried forever; its text names the fence that it reads.
KILL MUTATION WHERE NOT is_done AND position(command, {fences:String}) > 0
