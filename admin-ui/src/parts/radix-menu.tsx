import { Link } from "@tanstack/react-router";
import { DropdownMenu as Radix } from "radix-ui";

import { cx } from "./cx.ts";
import { Icon } from "./icons.tsx";
import type { MenuItem, MenuProps } from "./menu.tsx";

const ITEM =
  "flex min-h-7 cursor-pointer items-center gap-2 rounded px-2 outline-none select-none data-[disabled]:cursor-default data-[disabled]:opacity-50 data-[highlighted]:bg-hover";

interface RadixMenuProps extends MenuProps {
  startsOpen: boolean;
}

export default function RadixMenu({ trigger, items, align = "end", startsOpen }: RadixMenuProps) {
  return (
    <Radix.Root defaultOpen={startsOpen}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-h-[70vh] min-w-48 overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-high"
        >
          {items.map((item) => (
            <Item key={"heading" in item ? `-${item.heading}` : item.label} item={item} />
          ))}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function Item({ item }: { item: MenuItem }) {
  if ("heading" in item) {
    return (
      <>
        <Radix.Separator className="my-1 border-t border-line" />
        {item.heading && (
          <Radix.Label className="px-2 py-1 text-xs text-muted">{item.heading}</Radix.Label>
        )}
      </>
    );
  }
  if ("to" in item) {
    return (
      <Radix.Item asChild>
        <Link {...item.to} className={ITEM}>
          {item.icon && <Icon name={item.icon} />}
          {item.label}
        </Link>
      </Radix.Item>
    );
  }
  const inside = (
    <>
      {item.icon && <Icon name={item.icon} />}
      {item.label}
    </>
  );
  const shape = cx(ITEM, item.danger && "text-bad");
  if (item.checked !== undefined) {
    return (
      <Radix.CheckboxItem checked={item.checked} onSelect={item.onSelect} className={shape}>
        <span className="w-4">{item.checked && <Icon name="check" />}</span>
        {item.label}
      </Radix.CheckboxItem>
    );
  }
  return (
    <Radix.Item disabled={item.disabled ?? false} onSelect={item.onSelect} className={shape}>
      {inside}
    </Radix.Item>
  );
}
