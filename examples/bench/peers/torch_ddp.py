"""A step of the networks of instances.lua in PyTorch, on one process or several (gloo), on one thread each.
usage: torch_ddp.py PROCESSES mlp|cnn; prints the least of some rounds in microseconds."""
import os, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def network(kind):
    nn = torch.nn
    if kind == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (32, 784), 300
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)), (64, 1, 28, 28), 4


def work(rank, count, kind):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, shape, steps = network(kind)
    if count > 1:
        dist.init_process_group("gloo", rank=rank, world_size=count)
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = (torch.optim.SGD if kind == "mlp" else torch.optim.Adam)(model.parameters(), lr=0.001)
    x, y = torch.randn(*shape), torch.randint(10, (shape[0],))
    loss = torch.nn.CrossEntropyLoss()

    def run():
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

    run()
    least = float("inf")
    for _ in range(8):
        began = time.perf_counter()
        run()
        least = min(least, (time.perf_counter() - began) / steps * 1e6)
    if rank == 0:
        print("%.1f" % least, flush=True)


if __name__ == "__main__":
    count, kind = int(sys.argv[1]), sys.argv[2]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    if count == 1:
        work(0, 1, kind)
    else:
        mp.spawn(work, (count, kind), nprocs=count)
