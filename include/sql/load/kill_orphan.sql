KILL MUTATION WHERE database = 'sluice' AND table = 'rejected' AND mutation_id = {mutation:String}
